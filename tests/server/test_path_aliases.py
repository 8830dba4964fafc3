"""Routes take the short aliases of turns and calls, and answer with their ids."""

from pathlib import Path

import httpx2

from tests.harness.replies import answers
from tests.server.server_harness import LIST, ApiClient, ServerHarness, calls, run

SKETCH = calls("react.write", path="fi:t1/src/a.md", channel="canvas", content="a long enough text")


async def get_at(client: ApiClient, url: str, path: str) -> httpx2.Response:
    return await client.http.get(url, params={"path": path}, headers=client.headers)


def test_a_file_written_under_an_alias_is_fetched_by_it(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, SKETCH, answers("done")).serve() as served:
            first = await served.ann.send_message("write it")
            conversation, turn = str(first["conversation_id"]), first["turn_id"]
            await served.ann.wait_for_state(conversation, "idle")
            url = f"{LIST}/{conversation}"
            file = await get_at(served.ann, f"{url}/file", "fi:t1/src/a.md")
            assert (file.status_code, file.text) == (200, "a long enough text")
            card = (await get_at(served.ann, f"{url}/file/url", "fi:t1.files/src/a.md")).json()
            assert card["path"] == f"fi:{turn}.files/src/a.md"
            for path, status, code in (
                ("fi:t2/src/a.md", 404, "path_not_found"),
                ("fi:t1.outputs/src/a.md", 404, "path_not_found"),
                ("tc:t1.1.result", 400, "path_not_a_file"),
                ("fi:t1/../a.md", 400, "path_escapes_root"),
            ):
                refused = await get_at(served.ann, f"{url}/file", path)
                assert (refused.status_code, refused.json()["code"]) == (status, code), path
            detail = (await get_at(served.ann, f"{url}/file", "fi:t2/src/a.md")).json()["detail"]
            assert detail == "t2 names no turn: the conversation has 1 turn"
            # Names that reach into other conversations are long.
            name = str(card["rn"]).replace(str(turn), "t1")
            assert (await served.ann.post("/by-rn", {"rn": name})).status_code == 400

    run(check)


def test_pins_erasures_and_turns_take_aliases(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, SKETCH, answers("done")).serve() as served:
            first = await served.ann.send_message("the code is 7141")
            conversation, turn = str(first["conversation_id"]), first["turn_id"]
            await served.ann.wait_for_state(conversation, "idle")
            url = f"{LIST}/{conversation}"
            pin = await served.ann.post(f"{url}/pins", {"path": "ar:t1.user.prompt"})
            assert (pin.status_code, pin.json()["path"]) == (200, f"ar:{turn}.user.prompt")
            refused = await served.ann.post(f"{url}/pins", {"path": "tc:t1.2.result"})
            assert (refused.status_code, refused.json()["code"]) == (404, "path_not_found")
            assert refused.json()["detail"] == "t1.2 names no call: turn 1 has 1 call"
            ended = await served.ann.post(f"{url}/pins", {"path": "ar:t1.user.prompt", "pinned": False})
            assert ended.json()["pinned"] is False
            fetched = (
                await served.ann.post(f"{LIST}/fetch", {"conversation_id": conversation, "turn_ids": ["t1"]})
            ).json()
            assert [one["turn_id"] for one in fetched["turns"]] == [turn]
            prompts = [
                (await served.ann.get(f"{url}/prompt", turn=name)).json()["call"]["path"] for name in ("t1", "1")
            ]
            assert prompts == [f"ar:{turn}.react.model.2"] * 2
            erased = await served.ann.post(f"{url}/erase", {"paths": ["ar:t1.user.prompt"]})
            assert erased.status_code == 200
            assert f"ar:{turn}.user.prompt" in {one["path"] for one in erased.json()["entries"]}

    run(check)


def test_text_that_is_being_written_under_an_alias_has_the_path_of_its_file(tmp_path: Path) -> None:
    async def check() -> None:
        other = calls("react.write", path="t9/files/a.md", channel="canvas", content="a long enough text")
        async with ServerHarness(tmp_path, SKETCH, other, answers("done")).serve() as served:
            async with served.ann.post_and_stream("write it") as events:
                heard = [frame.data async for frame in events if frame.event == "chat.delta"]
            paths = {(one["turn_id"], one.get("path")) for one in heard if one["channel"] == "canvas"}
            turn = heard[0]["turn_id"]
            assert paths == {(turn, f"fi:{turn}.files/src/a.md"), (turn, None)}

    run(check)
