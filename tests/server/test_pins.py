"""Pins over HTTP: set, listed, ended, refused with a reason, and only by those who may write."""

from pathlib import Path

from tests.harness.context import LOOK_WORDS
from tests.harness.replies import answers
from tests.server.server_harness import LIST, ServerHarness, calls, run


def test_a_message_is_pinned_listed_and_unpinned(tmp_path: Path) -> None:
    async def check() -> None:
        turns = [step for _ in range(3) for step in (calls("t.look", size=LOOK_WORDS), answers("done"))]
        async with ServerHarness(tmp_path, *turns).serve() as served:
            first = await served.ann.send_message("the code is 7141")
            conversation, path = str(first["conversation_id"]), f"ar:{first['turn_id']}.user.prompt"
            await served.ann.wait_for_state(conversation, "idle")
            url = f"{LIST}/{conversation}/pins"
            response = await served.ann.post(url, {"path": path})
            pin = response.json()
            assert (response.status_code, pin["path"], pin["pinned"]) == (200, path, True)
            assert (await served.ann.post(url, {"path": path})).json()["seq"] == pin["seq"]
            listed = (await served.ann.get(url)).json()
            assert [(one["path"], one["seq"], one["tokens"]) for one in listed["pins"]] == [
                (path, pin["seq"], listed["tokens"])
            ]
            for n in (2, 3):
                await served.ann.send_message(f"ask {n}", conversation)
                await served.ann.wait_for_state(conversation, "idle")
            ended = await served.services.hub.compact(served.services.hub.conversations[0], keep=1)
            assert ended.outcome == "completed"
            assert len((await served.ann.get(url)).json()["pins"]) == 1
            done = await served.ann.post(url, {"path": path, "pinned": False})
            assert (done.status_code, done.json()["pinned"]) == (200, False)
            assert (await served.ann.get(url)).json()["pins"] == []
            exported = (await served.ann.get(f"{LIST}/{conversation}/timeline", form="export")).json()
            types = [block["type"] for block in exported["blocks"]]
            assert types.count("react.pinned") == 2
            assert {"react.compact.request", "react.compact.end"} <= set(types)

    run(check)


def test_an_erased_message_cannot_be_pinned(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("done")).serve() as served:
            first = await served.ann.send_message("the code is 7141")
            conversation, path = str(first["conversation_id"]), f"ar:{first['turn_id']}.user.prompt"
            await served.ann.wait_for_state(conversation, "idle")
            await served.ann.post(f"{LIST}/{conversation}/erase", {"paths": [path]})
            response = await served.ann.post(f"{LIST}/{conversation}/pins", {"path": path})
            assert (response.status_code, response.json()["code"]) == (409, "pin_not_visible")
            assert response.json()["detail"] == f"the content of {path} was erased, so there is nothing to pin"

    run(check)


def test_a_pin_that_cannot_be_set_or_ended_is_refused_with_the_reason(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("done")).serve() as served:
            conversation = str((await served.ann.send_message("ask"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            url = f"{LIST}/{conversation}/pins"
            for body, status, code in (
                ({"path": "ar:turn_9.user.prompt"}, 409, "pin_not_visible"),
                ({"path": "ar:turn_9.user.prompt", "pinned": False}, 409, "pin_unknown"),
                ({"path": "fi:turn_1.files/../../etc/passwd"}, 400, "path_escapes_root"),
                ({"path": "etc"}, 400, "path_malformed"),
                ({"path": ""}, 400, "request_malformed"),
                ({"path": "ar:turn_9.user.prompt", "colour": "red"}, 400, "request_malformed"),
            ):
                response = await served.ann.post(url, body)
                assert (response.status_code, response.json()["code"]) == (status, code), body

    run(check)


def test_only_the_owner_may_pin_and_list(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("done")).serve() as served:
            first = await served.ann.send_message("ask")
            await served.ann.wait_for_state(str(first["conversation_id"]), "idle")
            url = f"{LIST}/{first['conversation_id']}/pins"
            for token in ("bob", "tenant", "project"):
                body = {"path": f"ar:{first['turn_id']}.user.prompt"}
                assert (await served.client(token).post(url, body)).status_code in (403, 404), token
                assert (await served.client(token).get(url)).status_code in (403, 404), token

    run(check)
