"""Malformed requests, and the headers of every response."""

import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import httpx2
import msgspec
import pytest

from tests.harness.full_disk import store_on_full_disk
from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, Json, ServerHarness, calls, repeated_reply, run
from timeloom.core.codes import CODES
from timeloom.core.ids import ConversationId
from timeloom.runtime.hub import live_conversation
from timeloom.runtime.hub.events import ChatBlock, Heartbeat
from timeloom.server.auth.api_key_file import add_key, read_keys, remove_keys
from timeloom.server.auth.principal import Principal
from timeloom.server.endpoints import ENDPOINTS
from timeloom.server.http.problem_json import STATUSES
from timeloom.server.http.sse import encode_event
from timeloom.server.observability.logs import JsonLogFormatter

ONE = "/conversations/{tenant}/{project}/{conversation_id}"


def test_errors_are_problems_with_a_code(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            ann = served.ann
            expected: list[tuple[httpx2.Response, int, str]] = [
                (await ann.post(CHAT, {"message": ""}), 400, "request_malformed"),
                (await ann.post(CHAT, {"massage": "x"}), 400, "request_malformed"),
                (await ann.post(CHAT, {"message": "x" * 20_000}), 413, "request_too_large"),
                (await ann.post(CHAT, {"message": "x", "conversation_id": "none"}), 404, "conversation_unknown"),
                (await ann.get(f"{LIST}/a%20b"), 404, "conversation_unknown"),
                (await ann.get(LIST, limit=0), 400, "request_malformed"),
                (await ann.get(LIST, cursor="nonsense"), 400, "cursor_malformed"),
                (await ann.get("/nowhere"), 404, "route_unknown"),
                (await ann.get(CHAT), 405, "route_unknown"),
            ]
            for response, status, code in expected:
                assert response.headers["content-type"] == "application/problem+json"
                said: Json = response.json()
                assert (said["status"], said["code"]) == (status, code)
                assert said["title"] == CODES[code]
                assert {"type", "title", "status", "detail", "code", "instance"} == set(said)

    run(check)


def test_problems_say_what_would_be_right(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            ann = served.ann
            said = await ann.send_message("go")
            conversation = f"{LIST}/{said['conversation_id']}"
            feedback, events = (
                f"{conversation}/turns/{said['turn_id']}/feedback",
                f"/events/home/demo/{said['conversation_id']}",
            )
            period = {"start": "2026-02-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}
            for response, words in (
                (await ann.post(feedback, {"reaction": "bad"}), "'bad' - at `$.reaction`; it must be one of "),
                (await ann.post(feedback, {"reaction": "bad"}), "not_ok"),
                (await ann.get(f"{conversation}/timeline", form="x"), "it must be one of blocks, export, restored"),
                (await ann.post(CHAT, {"message": ""}), "message must not be empty"),
                (
                    await ann.post(f"{conversation}/turns-with-feedbacks", {"reactions": ["x"]}),
                    "[0]`; it must be one of ",
                ),
                (await ann.post(f"{LIST}/feedback/conversations-in-period", period), "end must not be before start"),
                (await ann.post(CHAT, {"message": " \n "}), "message must not be empty"),
                (await ann.post(events, {"kind": "followup", "text": "  "}), "text of a follow-up must not be empty"),
                (
                    await ann.post(events, {"kind": "form", "text": "{", "mime": "application/json"}),
                    "must be valid JSON",
                ),
            ):
                assert response.status_code == 400, words
                assert words in response.json()["detail"]

    run(check)


def test_blanks_are_no_message_for_any_client(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            said: Json = {"id": "m", "role": "user", "content": " \n"}
            for path, body in (
                ("/v1/chat/completions", {"model": "timeloom", "messages": [said]}),
                ("/ag-ui", {"threadId": "t", "runId": "r", "messages": [said]}),
            ):
                refused = await served.ann.post(path, body)
                assert (refused.status_code, "and a text" in refused.text) == (400, True)

    run(check)


def test_a_body_that_never_says_its_size_is_counted(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:

            async def much() -> AsyncIterator[bytes]:
                for _ in range(50):
                    yield b" " * 1000

            headers = served.ann.headers | {"content-type": "application/json"}
            response = await served.http.post(CHAT, content=much(), headers=headers)
            assert (response.status_code, response.json()["code"]) == (413, "request_too_large")

    run(check)


def test_only_json_is_taken_for_json(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            headers = served.ann.headers | {"content-type": "text/plain"}
            response = await served.http.post(CHAT, content=b'{"message": "x"}', headers=headers)
            assert (response.status_code, response.json()["code"]) == (400, "request_malformed")

    run(check)


@pytest.mark.parametrize(("written", "said"), [("\\ud83d", "\ufffd"), ("\\ud83d\\ude00\\udc00", "\U0001f600\ufffd")])
def test_half_a_character_in_a_message_becomes_its_replacement(tmp_path: Path, written: str, said: str) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            body = f'{{"message": "hi {written}"}}'.encode()
            headers = served.ann.headers | {"content-type": "application/json"}
            response = await served.http.post(CHAT, content=body, headers=headers)
            conversation = response.json()["conversation_id"]
            await served.ann.wait_for_state(conversation, "idle")
            texts = [block.get("text") for block in await served.ann.blocks(conversation)]
            assert f"hi {said}" in texts
            assert (await served.ann.send_message("And now?", conversation))["status"] == "started"

    run(check)


def test_every_response_says_to_browsers_what_it_is_not(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            for response in (
                await served.http.get("/health"),
                await served.http.get("/nowhere"),
                await served.ann.get(LIST),
                await served.ann.post(CHAT, {"message": "x"}),
            ):
                assert response.headers["x-content-type-options"] == "nosniff"
                assert "default-src 'none'" in response.headers["content-security-policy"]
                assert response.headers["cache-control"] == "no-store"
                assert "access-control-allow-origin" not in response.headers
                assert "server" not in response.headers

    run(check)


def test_the_document_describes_every_operation(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            said = (await served.http.get("/openapi.json")).json()
            assert said["openapi"] == "3.1.0"
            described = {(path, method.upper()) for path, methods in said["paths"].items() for method in methods}
            assert described == {(one.path, one.method) for one in ENDPOINTS}
            message = said["paths"]["/chat/{tenant}/{project}"]["post"]
            assert message["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/MessageBody")
            assert set(message["responses"]["202"]["content"]) == {"application/json"}
            assert set(message["responses"]["200"]["content"]) == {"text/event-stream"}
            names = [one["name"] for one in said["paths"]["/conversations/{tenant}/{project}"]["get"]["parameters"]]
            assert names == ["tenant", "project", "words", "cursor", "limit", "user"]

    run(check)


def test_a_server_that_closes_is_not_ready_and_takes_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            assert (await served.http.get("/ready")).status_code == 200
            served.services.hub.stop_accepting()
            assert (await served.http.get("/health")).status_code == 200
            for response in (await served.http.get("/ready"), await served.ann.post(CHAT, {"message": "x"})):
                assert (response.status_code, response.json()["code"]) == (503, "server_closing")
                assert response.headers["retry-after"]

    run(check)


def test_a_server_whose_last_write_failed_is_not_ready_until_a_write_succeeds(tmp_path: Path) -> None:
    async def check() -> None:
        async with (
            store_on_full_disk(tmp_path / "data") as (store, disk),
            ServerHarness(tmp_path, answers("Done."), store=store, write_probe_s=0.0).serve() as served,
        ):
            assert (await served.http.get("/ready")).status_code == 200
            disk.is_full = True
            refused = await served.ann.post(CHAT, {"message": "x"})
            for response in (refused, await served.http.get("/ready"), await served.http.get("/ready")):
                assert (response.status_code, response.json()["code"]) == (503, "store_unwritable")
            assert (await served.http.get("/health")).status_code == 200
            disk.is_full = False
            # Nobody is sent here while the server is not ready, so asking must be enough.
            assert (await served.http.get("/ready")).status_code == 200

    run(check)


def test_the_document_has_the_headers_that_are_looked_at(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            paths = (await served.http.get("/openapi.json")).json()["paths"]
            for place, method, names in (
                ("/chat/{tenant}/{project}/{conversation_id}/stream", "get", ["Last-Event-ID"]),
                ("/chat/{tenant}/{project}", "post", []),
                (f"{ONE}/file", "get", ["Range", "If-Range", "If-None-Match"]),
            ):
                described = paths[place][method]
                assert [one["name"] for one in described["parameters"] if one["in"] == "header"] == names
            assert {"200", "206", "304", "416"} <= paths[f"{ONE}/file"]["get"]["responses"].keys()

    run(check)


def test_a_turn_is_logged_as_what_became_of_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[tuple[str, object]]:
        said = [
            msgspec.json.decode(JsonLogFormatter().format(one))
            for one in caplog.records
            if one.name == live_conversation.__name__
        ]
        return [(one["message"], one.get("reason")) for one in said]

    async def check() -> None:
        async with ServerHarness(tmp_path, calls("t.send"), answers("Sent.")).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            (asked,) = cast(list[Json], (await served.ann.wait_for_state(conversation, "waiting"))["approvals"])
            call = asked["tool_call_id"]
            await served.ann.post(f"{LIST}/{conversation}/approvals/{call}", {"approved": True})
            while len(told()) < 4:
                await served.http.get("/health")
            expected = [("turn runs", None), ("turn waits", None), ("turn runs", None), ("turn ended", "completed")]
            assert told() == expected

    with caplog.at_level(logging.INFO, "timeloom"):
        run(check)


def test_what_is_said_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("my answer")).serve() as served:
            said = await served.ann.send_message("my secret")
            await served.ann.wait_for_state(str(said["conversation_id"]), "idle")
            await served.http.get(LIST, params={"token": "guessed"})
            await served.http.get(LIST, headers={"authorization": "Bearer guessed"} | served.cookie("guessed"))
            await served.ann.get(LIST, words="my secret", cursor="my secret")
            await served.ann.get(f"{LIST}/my-secret/timeline")
            await served.ann.post(CHAT, {"message": 3, "my secret": "my secret"})
            headers = served.ann.headers | {"content-type": "application/json"}
            await served.http.post(CHAT, content=b'{"my secret', headers=headers)
            lines = [
                JsonLogFormatter().format(record) for record in caplog.records if record.name.startswith("timeloom")
            ]
            sent = [one for one in map(msgspec.json.decode, lines) if one.get("operation") == "post_message"]
            accepted, *refused = sent
            assert [one["status"] for one in refused] == [400, 400]
            assert accepted["conversation_id"] == said["conversation_id"]
            assert (accepted["turn_id"], accepted["status"]) == (said["turn_id"], 202)
            assert not any(word in line for line in lines for word in ("secret", "my answer", "guessed", "Bearer"))

    with caplog.at_level(logging.INFO, "timeloom"):
        run(check)


def test_an_error_is_logged_by_its_place_and_not_by_its_words() -> None:
    try:
        raise ValueError("the user's own words")
    except ValueError:
        record = logging.LogRecord("timeloom.x", logging.ERROR, __file__, 1, "it failed", None, sys.exc_info())
    line = JsonLogFormatter().format(record)
    assert "own words" not in line
    said = msgspec.json.decode(line)
    assert (said["message"], said["error"]) == ("it failed", "ValueError")
    assert said["where"][-1].startswith("tests.server.test_requests.test_an_error")


def test_a_frame_carries_a_block_of_several_lines() -> None:
    sent = encode_event(ChatBlock(seq=3, block=msgspec.Raw(b'{"a":\r\n1}')))
    assert sent == b'id: 3\nevent: chat.block\ndata: {"seq":3,"block":{"a":\ndata: 1}}\n\n'
    assert encode_event(Heartbeat()) == b": still here\n\n"


def test_every_status_is_one_of_a_known_code() -> None:
    assert STATUSES.keys() <= CODES.keys()


def test_a_file_of_keys_is_read_strictly(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    digest = "0" * 64
    file.write_text(f'[[keys]]\nsha256 = "{digest}"\ntenant = "t"\nproject = "*"\nuser = "ann"\nrole = "admin"\n')
    (known,) = read_keys(file)
    assert (known.user, known.role, known.project) == ("ann", "admin", "*")
    for text in ("keys = 3", '[[keys]]\nsha256 = "abc"\n', "[[keys]", "\xff"):
        file.write_bytes(text.encode("latin-1"))
        with pytest.raises(ValueError, match=r"keys\.toml"):
            read_keys(file)
    with pytest.raises(ValueError, match="cannot be read"):
        read_keys(tmp_path / "none")


def test_a_conversation_that_is_not_there_has_no_status(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).open_services() as place:
            with pytest.raises(ValueError, match="no conversation"):
                await place.hub.status(ConversationId("conv_1"))

    run(check)


def test_a_key_is_taken_out_of_its_file_and_the_rest_stays(tmp_path: Path) -> None:
    file, caller = tmp_path / "keys.toml", Principal(tenant="home", project="*", user="ann")
    for token in ("a", "b", "c"):
        add_key(file, token, caller)
        file.write_text(f"{file.read_text()}\n# after {token}\n")
    first, second, third = read_keys(file)
    remove_keys(file, [second])
    assert read_keys(file) == (first, third)
    assert [line for line in file.read_text().splitlines() if line.startswith("#")] == ["# after a", "# after c"]
    # In a form of its own it is written anew.
    keys = [f'{{sha256 = "{key.sha256}", tenant = "home", project = "*", user = "ann"}}' for key in (first, third)]
    file.write_text(f"keys = [{', '.join(keys)}]")
    remove_keys(file, [first])
    assert read_keys(file) == (third,)
    remove_keys(file, [third])
    assert read_keys(file) == ()
