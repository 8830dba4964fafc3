"""Conversations over a WebSocket: the same events as a stream, and each message accepted once."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.harness.replies import answers, slow_reply
from tests.server.server_harness import (
    CHAT,
    LIST,
    RunningServer,
    ServerHarness,
    calls,
    number_blocks,
    repeated_reply,
    run,
)
from timeloom.core.blocks import ConversationStarted
from timeloom.server.http_server import HttpServer, listen

ANNS = ConversationStarted(tenant="home", project="demo", user="ann")
Told = dict[str, Any]
LONG = [slow_reply(calls("t.look", size=n), delay_ms=3) for n in range(1, 5)]


@asynccontextmanager
async def opened(
    served: RunningServer, conversation: str, after: int = 0, token: str = "ann", headers: dict[str, str] | None = None
) -> AsyncGenerator[ClientConnection]:
    """A WebSocket of that conversation."""
    said = ({"authorization": f"Bearer {token}"} if token else {}) | (headers or {})
    url = f"{served.url.replace('http', 'ws', 1)}{CHAT}/{conversation}/ws"
    async with connect(f"{url}?after={after}" if after else url, additional_headers=said, proxy=None) as held:
        yield held


async def told(held: ClientConnection) -> Told:
    return json.loads(await held.recv())


async def until(held: ClientConnection, event: str) -> list[Told]:
    """Return all events up to that one."""
    heard: list[Told] = []
    while not heard or heard[-1]["event"] != event:
        heard.append(await told(held))
    return heard


async def begun(served: RunningServer, message: str = "go") -> str:
    conversation = str((await served.ann.send_message(message))["conversation_id"])
    await served.ann.wait_for_state(conversation, "idle")
    return conversation


def blocks_of(heard: list[Told]) -> list[tuple[object, object]]:
    return [(frame["id"], frame["data"]["block"]) for frame in heard if frame["event"] == "chat.block"]


def test_what_is_told_is_what_a_stream_tells(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, *LONG, answers("Done.")).serve() as served:
            conversation = await begun(served)
            async with served.ann.stream_conversation(conversation) as events:
                stream = [await anext(events) for _ in range(60)]
            async with opened(served, conversation) as held:
                heard = [await told(held) for _ in stream]
            assert heard == [
                {"event": frame.event, **({"id": frame.id} if frame.id else {}), "data": frame.data} for frame in stream
            ]

    run(check)


def test_a_message_is_accepted_and_its_turn_is_heard(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("First."), slow_reply(answers("A second answer."), delay_ms=20))
        async with stage.serve() as served:
            conversation = await begun(served)
            tail = len(await served.ann.blocks(conversation))
            async with opened(served, conversation, after=tail) as held:
                await held.send(json.dumps({"event": "chat.message", "ref": "m1", "data": {"message": "And now?"}}))
                heard = await until(held, "chat.complete")
            (accepted,) = [one for one in heard if one["event"] == "accepted"]
            assert accepted["ref"] == "m1"
            blocks = await served.ann.blocks(conversation)
            assert blocks[accepted["data"]["seq"] - 1]["text"] == "And now?"
            assert accepted["data"]["status"] == "started"
            assert blocks_of(heard) == number_blocks(blocks)[tail : tail + len(blocks_of(heard))]
            deltas = [one["data"] for one in heard if one["event"] == "chat.delta"]
            assert "".join(str(one["text"]) for one in deltas) == "A second answer."

    run(check)


def test_half_a_character_in_a_message_becomes_its_replacement(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            conversation = await begun(served)
            tail = len(await served.ann.blocks(conversation))
            async with opened(served, conversation, after=tail) as held:
                await held.send(json.dumps({"event": "chat.message", "data": {"message": "hi \ud83d"}}))
                accepted = (await until(held, "accepted"))[-1]
            blocks = await served.ann.blocks(conversation)
            assert blocks[accepted["data"]["seq"] - 1]["text"] == "hi \ufffd"

    run(check)


def test_events_reach_the_turn_that_runs(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"), repeated_reply(answers("Stopped.")))
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await stage.waiting.wait()
            async with opened(served, conversation) as held:
                await held.send(json.dumps({"event": "chat.event", "data": {"kind": "alert", "text": "look"}}))
                await held.send(json.dumps({"event": "chat.event", "data": {"kind": "steer", "text": "stop that"}}))
                heard = await until(held, "chat.complete")
            statuses = [one["data"]["status"] for one in heard if one["event"] == "accepted"]
            assert statuses == ["told", "steered"]
            types = [block["type"] for block in await served.ann.blocks(conversation)]
            assert types.index("external.event") < types.index("user.steer")

    run(check)


def test_a_socket_that_is_lost_after_every_event_has_each_block_once(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, *LONG, slow_reply(answers("Done."), delay_ms=3)).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            found: list[tuple[object, object]] = []
            is_over = False
            while not is_over:
                async with opened(served, conversation, after=len(found)) as held:
                    status = (await told(held))["data"]
                    is_over = status["state"] == "idle" and status["tail"] == len(found)
                    if not is_over:
                        found += blocks_of(await until(held, "chat.block"))
            assert found == number_blocks(await served.ann.blocks(conversation))

    run(check)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 5000,
        b'{"event": "chat.shout"}',
        b'{"event": "chat.message"}',
        b'{"event": "chat.message", "data": {"message": ""}}',
        b'{"event": "chat.message", "data": {"massage": "x"}}',
        b'{"event": "chat.message", "data": [1]}',
        b'{"event": "chat.event", "data": {"kind": "followup"}}',
        b'{"event": "chat.event", "data": {"kind": "No Kind"}}',
    ],
)
def test_what_is_none_is_refused_and_the_socket_goes_on(tmp_path: Path, said: bytes) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            conversation = await begun(served)
            before = await served.ann.blocks(conversation)
            async with opened(served, conversation, after=len(before)) as held:
                await held.send(said)
                refused = (await until(held, "refused"))[-1]
                assert refused["data"]["code"] == "request_malformed"
                assert await served.ann.blocks(conversation) == before
                await held.send('{"event": "chat.message", "data": {"message": "still here?"}}')
                await until(held, "accepted")

    run(check)


def test_a_refusal_says_to_what(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await begun(served)
            async with opened(served, conversation) as held:
                await held.send('{"event": "chat.event", "ref": "x", "data": {"kind": "cancel"}}')
                refused = (await until(held, "refused"))[-1]
                assert refused["ref"] == "x"
                assert refused["data"]["code"] == "turn_not_running"

    run(check)


def test_a_message_that_is_too_large_closes_the_socket(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await begun(served)
            before = await served.ann.blocks(conversation)
            async with opened(served, conversation) as held:
                await held.send(json.dumps({"event": "chat.message", "data": {"message": "x" * 50_000}}))
                with pytest.raises(ConnectionClosed) as closed:
                    await until(held, "accepted")
                assert closed.value.rcvd and closed.value.rcvd.code == 1009
            assert await served.ann.blocks(conversation) == before

    run(check)


@pytest.mark.parametrize(
    ("token", "status"),
    [("", 401), ("wrong", 401), ("bob", 404), ("project", 404), ("tenant", 404), ("tenant-admin", 404)],
)
def test_nobody_opens_what_is_not_theirs(tmp_path: Path, token: str, status: int) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await begun(served)
            with pytest.raises(InvalidStatus) as refused:
                async with opened(served, conversation, token=token):
                    pass
            assert refused.value.response.status_code == status
            said = json.loads(refused.value.response.body or b"")
            assert said["status"] == status

    run(check)


def test_who_is_refused_or_leaves_early_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done. " * 50))).serve() as served:
            conversation = await begun(served)
            with pytest.raises(InvalidStatus):
                async with opened(served, conversation, token="wrong"):
                    pass
            for _ in range(3):
                async with opened(served, conversation) as held:
                    await held.send('{"event": "chat.message", "data": {"message": "hi"}}')
                    held.transport.abort()
            await served.ann.wait_for_state(conversation, "idle")

    with caplog.at_level(logging.ERROR):
        run(check)
    assert caplog.records == []


def test_an_admin_opens_a_conversation_of_the_project(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await begun(served)
            async with opened(served, conversation, token="admin") as held:
                assert (await told(held))["event"] == "conv.status"

    run(check)


def test_a_page_of_another_origin_cannot_use_the_cookie(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await begun(served)
            cookie = served.cookie("ann")
            async with opened(served, conversation, token="", headers=cookie | {"origin": served.url}) as held:
                assert (await told(held))["event"] == "conv.status"
            for origin in ("http://evil.example", "null", served.url.replace("http", "https")):
                with pytest.raises(InvalidStatus) as refused:
                    async with opened(served, conversation, token="", headers=cookie | {"origin": origin}):
                        pass
                assert refused.value.response.status_code == 403

    run(check)


@pytest.mark.parametrize(("after", "code"), [("999", "cursor_malformed"), ("x", "request_malformed")])
def test_a_socket_after_a_block_that_is_not_there_is_refused(tmp_path: Path, after: str, code: str) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            url = f"{served.url.replace('http', 'ws', 1)}{CHAT}/{await begun(served)}/ws?after={after}"
            with pytest.raises(InvalidStatus) as refused:
                async with connect(url, additional_headers=served.ann.headers, proxy=None):
                    pass
            assert refused.value.response.status_code == 400
            assert json.loads(refused.value.response.body or b"")["code"] == code

    run(check)


def test_the_socket_of_a_deleted_conversation_ends(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await begun(served)
            async with opened(served, conversation) as held:
                await told(held)
                await served.http.delete(f"{LIST}/{conversation}", headers=served.ann.headers)
                last = (await until(held, "chat.error"))[-1]
                assert last["data"]["code"] == "conversation_unknown"
                with pytest.raises(ConnectionClosed):
                    await told(held)

    run(check)


def test_a_server_that_leaves_says_so(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await begun(served)
            async with opened(served, conversation) as held:
                await told(held)
                served.services.hub.stop_accepting()
                last = (await until(held, "chat.error"))[-1]
                assert last["data"]["code"] == "server_closing"
                with pytest.raises(ConnectionClosed) as closed:
                    await told(held)
                assert closed.value.rcvd and closed.value.rcvd.code == 1012

    run(check)


def test_a_client_that_leaves_leaves_nothing_behind(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done."), rest_s=0.01).serve() as served:
            conversation = await begun(served)
            async with opened(served, conversation) as held:
                await told(held)
                assert conversation in served.services.hub.conversations
            while True:
                if not served.services.hub.conversations:
                    break
                await asyncio.sleep(0.01)

    run(check)


def test_a_client_that_reads_nothing_is_ended_and_finds_all_when_it_comes_back(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.flood"), answers("Done."), reader_bytes=100_000)
        stage.leave_s = 60.0
        async with stage.serve(small_buffers=True) as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await stage.waiting.wait()
            loop = asyncio.get_running_loop()
            sleeper = socket.socket()
            sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sleeper.setblocking(False)
            host, port = served.url.removeprefix("http://").split(":")
            await loop.sock_connect(sleeper, (host, int(port)))
            head = (
                f"GET {CHAT}/{conversation}/ws HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer ann\r\n"
                "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
                "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            await loop.sock_sendall(sleeper, head.encode())
            said = await loop.sock_recv(sleeper, 1024)
            stage.flooding.set()
            await served.ann.wait_for_state(conversation, "idle")
            while b"reader_too_slow" not in said[-70_000:] and (chunk := await loop.sock_recv(sleeper, 65_536)):
                said += chunk
            sleeper.close()
            assert b"reader_too_slow" in said[-300:]
            # A megabyte and more was told; a bounded part of it waited here.
            assert len(said) < 1_000_000
            async with opened(served, conversation) as held:
                found = blocks_of(await until(held, "chat.complete"))
            assert found == number_blocks(await served.ann.blocks(conversation))[: len(found)]

    run(check)


def test_the_other_end_is_asked_whether_it_is_there(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).open_services() as place:
            with listen("127.0.0.1", 0) as listener:
                serving = HttpServer(place, ping_s=0.05)
                running = asyncio.create_task(serving.serve(listener))
                loop = asyncio.get_running_loop()
                with socket.socket() as silent:
                    silent.setblocking(False)
                    await loop.sock_connect(silent, listener.getsockname())
                    accepted = await place.hub.start_conversation(ANNS, "go")
                    head = (
                        f"GET {CHAT}/{accepted.conversation_id}/ws HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ann\r\n"
                        "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
                        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                    )
                    await loop.sock_sendall(silent, head.encode())
                    said = b""
                    # It never answers, and so it is left.
                    while chunk := await loop.sock_recv(silent, 65_536):
                        said += chunk
                assert b"keepalive ping timeout" in said
                serving.shut_down()
                await running

    run(check)
