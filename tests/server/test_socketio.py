"""Conversations over Socket.IO, with the library's own client."""

import asyncio
import gc
import json
import logging
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest
import socketio  # pyright: ignore[reportMissingTypeStubs]
from websockets.asyncio.client import connect

from tests.harness.replies import answers, slow_reply
from tests.server.server_harness import LIST, RunningServer, ServerHarness, calls, number_blocks, repeated_reply, run
from timeloom.server.observability.logs import JsonLogFormatter
from timeloom.server.protocols.socketio import socketio_app
from timeloom.server.rate_limit import RateLimits

pytestmark = pytest.mark.slow

EVENTS = (
    "chat.start",
    "chat.step",
    "chat.delta",
    "chat.block",
    "chat.compaction",
    "chat.approval",
    "chat.complete",
    "chat.error",
    "conv.status",
)
REFUSED: type[Exception] = socketio.exceptions.ConnectionError  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
LONG = [slow_reply(calls("t.look", size=n), delay_ms=3) for n in range(1, 4)]


Told = dict[str, Any]


class Friend:
    """A Socket.IO client and the events that it received."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.client: Any = socketio.AsyncClient(reconnection=False, http_session=session)
        self.heard: list[tuple[str, Told]] = []
        self.left = asyncio.Event()
        self._news = asyncio.Condition()
        for name in EVENTS:
            self.client.on(name, self._hearing(name))
        self.client.on("disconnect", self._leave)

    def _hearing(self, name: str) -> Any:
        async def hear(data: Told) -> None:
            async with self._news:
                self.heard.append((name, data))
                self._news.notify_all()

        return hear

    async def _leave(self, *_: object) -> None:
        self.left.set()

    async def join(self, conversation: str = "", after: int = 0, project: str = "demo") -> Told:
        where: Told = {"tenant": "home", "project": project, "after": after}
        return await self.client.call("join", where | ({"conversation_id": conversation} if conversation else {}))

    async def until(self, event: str, count: int = 1) -> Told:
        """The event of that name, once it was heard that often."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.all(event)) >= count)
        return self.all(event)[count - 1]

    def all(self, event: str) -> list[Told]:
        return [data for name, data in self.heard if name == event]

    @property
    def blocks(self) -> list[tuple[object, object]]:
        return [(data["seq"], data["block"]) for data in self.all("chat.block")]


@asynccontextmanager
async def connected(
    served: RunningServer, auth: object = None, transport: str = "websocket", **headers: str
) -> AsyncGenerator[Friend]:
    token = {"token": "ann"} if auth is None and not headers else auth
    async with aiohttp.ClientSession() as session:
        friend = Friend(session)
        try:
            await friend.client.connect(served.url, auth=token, headers=headers, transports=[transport])
            yield friend
        finally:
            await friend.client.shutdown()
            if friend.client.eio.ws:
                # The library leaves it open where the server refused or ended the connection.
                await friend.client.eio.ws.close()
            if friend.client.eio.read_loop_task:
                await asyncio.wait({friend.client.eio.read_loop_task})
    with warnings.catch_warnings():
        # The library's client does not read the answers to what it posts.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


async def begun(served: RunningServer) -> str:
    conversation = str((await served.ann.send_message("go"))["conversation_id"])
    await served.ann.wait_for_state(conversation, "idle")
    return conversation


async def none_left(served: RunningServer) -> None:
    """Return once there are no readers."""
    while True:
        if not served.services.rate_limiter.open_streams and not served.services.hub.readers:
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("transport", ["websocket", "polling"])
def test_what_is_told_is_what_a_stream_tells(tmp_path: Path, transport: str) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, *LONG, answers("Done.")).serve() as served:
            conversation = await begun(served)
            async with served.ann.stream_conversation(conversation) as events:
                stream = [await anext(events) for _ in range(45)]
            async with connected(served, transport=transport) as friend:
                joined = await friend.join(conversation)
                assert joined == {"conversation_id": conversation, "tail": len(await served.ann.blocks(conversation))}
                await friend.until("conv.status", 2)
                assert friend.heard[: len(stream)] == [(frame.event, frame.data) for frame in stream]

    run(check)


@pytest.mark.parametrize("transport", ["websocket", "polling"])
def test_a_message_is_acknowledged_and_its_turn_is_heard(tmp_path: Path, transport: str) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("First."), slow_reply(answers("A second answer."), delay_ms=20))
        async with stage.serve() as served:
            conversation = await begun(served)
            tail = len(await served.ann.blocks(conversation))
            async with connected(served, transport=transport) as friend:
                await friend.join(conversation, after=tail)
                accepted: Told = await friend.client.call("chat.message", {"message": "And now?"})
                assert (accepted["conversation_id"], accepted["status"]) == (conversation, "started")
                await friend.until("chat.complete")
            blocks = await served.ann.blocks(conversation)
            assert friend.blocks == number_blocks(blocks)[tail : tail + len(friend.blocks)]
            assert blocks[int(str(accepted["seq"])) - 1]["text"] == "And now?"
            assert "".join(str(one["text"]) for one in friend.all("chat.delta")) == "A second answer."

    run(check)


def test_a_message_without_a_conversation_begins_one(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Hello.")).serve() as served:
            async with connected(served) as friend:
                assert await friend.join() == {"conversation_id": "", "tail": 0}
                refused = await friend.client.call("chat.event", {"kind": "alert"})
                assert refused["error"]["code"] == "request_malformed"
                accepted: Told = await friend.client.call("chat.message", {"message": "Hi"})
                await friend.until("chat.complete")
            blocks = number_blocks(await served.ann.blocks(str(accepted["conversation_id"])))
            assert friend.blocks == blocks[: len(friend.blocks)]

    run(check)


def test_events_reach_the_turn_that_runs(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"), repeated_reply(answers("Stopped.")))
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await stage.waiting.wait()
            async with connected(served) as friend:
                await friend.join(conversation)
                told = await friend.client.call("chat.event", {"kind": "alert", "text": "look"})
                steered = await friend.client.call("chat.event", {"kind": "steer", "text": "stop that"})
                assert (told["status"], steered["status"]) == ("told", "steered")
                await friend.until("chat.complete")

    run(check)


def test_a_client_that_comes_back_misses_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, *LONG, slow_reply(answers("Done."), delay_ms=3)).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            found: list[tuple[object, object]] = []
            while not found or len(found) < await tail(served, conversation):
                async with connected(served) as friend:
                    await friend.join(conversation, after=len(found))
                    # The first time it leaves in the middle of the turn.
                    await (friend.until("conv.status", 2) if found else friend.until("chat.block", 3))
                found += friend.blocks
            assert found == number_blocks(await served.ann.blocks(conversation))

    async def tail(served: RunningServer, conversation: str) -> int:
        await served.ann.wait_for_state(conversation, "idle")
        (one,) = (await served.ann.get(LIST)).json()["conversations"]
        return one["tail"]

    run(check)


def test_who_joins_another_conversation_leaves_the_first(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            first, second = await begun(served), await begun(served)
            async with connected(served) as friend:
                await friend.join(first)
                await friend.until("conv.status", 2)
                await friend.join(second)
                await friend.until("conv.status", 4)
                friend.heard.clear()
                await served.ann.send_message("again", first)
                await served.ann.wait_for_state(first, "idle")
                assert await friend.client.call("leave", {}) == {"conversation_id": "", "tail": 0}
                assert friend.heard == []
                refused = await friend.client.call("chat.message", {"message": "Where?"})
                assert refused["error"]["code"] == "request_malformed"

    run(check)


@pytest.mark.parametrize(
    ("auth", "headers"),
    [
        ({}, {}),
        ({"token": "wrong"}, {}),
        ({"token": 3}, {}),
        ("ann", {}),
        ({}, {"authorization": "Bearer wrong"}),
    ],
)
def test_nobody_connects_without_a_token(tmp_path: Path, auth: object, headers: dict[str, str]) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            with pytest.raises(REFUSED):
                async with connected(served, auth, **headers):
                    pass
            with pytest.raises(REFUSED):
                async with connected(served, auth, **headers, **served.cookie("wrong")):
                    pass

    run(check)


def test_who_is_refused_or_says_nothing_does_not_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage, socket = ServerHarness(tmp_path), "/socket.io/?EIO=4&transport=websocket"
    stage.limits = RateLimits(head_s=1.0)

    async def check() -> None:
        async with stage.serve() as served:
            url = f"{served.url.replace('http', 'ws', 1)}{socket}"
            async with connect(url, proxy=None) as refused, connect(url, proxy=None) as silent:
                await refused.send('40{"token": "wrong"}')
                assert "unauthorized" in "".join([str(said) async for said in refused])
                async for _ in silent:
                    pass
            poll = "/socket.io/?EIO=4&transport=polling"
            mine = f"{poll}&sid={json.loads((await served.http.get(poll)).text[1:])['sid']}"
            await served.http.post(mine, content=b"40")
            assert "unauthorized" in (await served.http.get(mine)).text
            assert (await served.http.get(mine)).status_code == 400
            assert (await served.http.get(f"{poll}&sid=nobody")).status_code == 400

    with caplog.at_level(logging.WARNING):
        run(check)
    assert caplog.records == []


def test_the_token_may_stand_in_the_headers(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await begun(served)
            for headers in ({"authorization": "Bearer ann"}, served.cookie("ann")):
                async with connected(served, {}, **headers) as friend:
                    assert "error" not in await friend.join(conversation)

    run(check)


@pytest.mark.parametrize("transport", ["websocket", "polling"])
def test_a_page_of_another_origin_is_not_let_in(tmp_path: Path, transport: str) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            cookie = served.cookie("ann")
            async with connected(served, {}, transport, origin=served.url, **cookie):
                pass
            with pytest.raises(REFUSED):
                async with connected(served, {}, transport, origin="http://evil.example", **cookie):
                    pass

    run(check)


def test_nobody_joins_what_is_not_theirs(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await begun(served)
            before = await served.ann.blocks(conversation)
            for token in ("bob", "project", "tenant", "tenant-admin"):
                async with connected(served, {"token": token}) as friend:
                    refused = await friend.join(conversation)
                    assert refused["error"]["code"] == "conversation_unknown"
                    assert (await friend.client.call("chat.message", {"message": "x"}))["error"]
                    member = await friend.join()
                    assert ("error" in member) == (token != "bob")
            async with connected(served, {"token": "admin"}) as friend:
                assert (await friend.join(conversation))["conversation_id"] == conversation
            assert await served.ann.blocks(conversation) == before

    run(check)


@pytest.mark.parametrize(
    ("event", "given"),
    [
        ("join", {}),
        ("join", {"tenant": "home", "project": "demo", "after": -1}),
        ("join", "home"),
        ("chat.message", {"message": ""}),
        ("chat.message", {"message": "  "}),
        ("chat.shout", {}),
        ("*", None),
        ("chat.message", [1, 2]),
        ("chat.event", {"kind": "followup"}),
    ],
)
def test_what_is_none_is_refused_and_the_connection_goes_on(tmp_path: Path, event: str, given: object) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            conversation = await begun(served)
            async with connected(served) as friend:
                await friend.join(conversation)
                assert (await friend.client.call(event, given))["error"]["code"] == "request_malformed"
                assert (await friend.client.call("chat.message", {"message": "x"}))["status"] == "started"

    run(check)


def test_who_sends_too_much_at_once_is_disconnected(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = await begun(served)
            before = await served.ann.blocks(conversation)
            async with connected(served) as friend:
                await friend.join(conversation)
                await friend.client.emit("chat.message", {"message": "x" * 50_000})
                await friend.left.wait()
            assert await served.ann.blocks(conversation) == before

    run(check)


def test_a_deleted_conversation_and_a_server_that_leaves_end_the_connection(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            gone, kept = await begun(served), await begun(served)
            async with connected(served) as friend, connected(served) as other:
                await friend.join(gone)
                await other.join(kept)
                await served.http.delete(f"{LIST}/{gone}", headers=served.ann.headers)
                assert (await friend.until("chat.error"))["code"] == "conversation_unknown"
                await friend.left.wait()
                served.services.hub.stop_accepting()
                assert (await other.until("chat.error"))["code"] == "server_closing"
                await other.left.wait()

    run(check)


def test_a_client_that_polls_no_more_is_ended_and_its_share_is_bounded(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.flood"), answers("Done."), reader_bytes=100_000)
        stage.leave_s = 0.05
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await stage.waiting.wait()
            poll = "/socket.io/?EIO=4&transport=polling"
            opened = json.loads((await served.http.get(poll)).text[1:])
            mine = f"{poll}&sid={opened['sid']}"
            await served.http.post(mine, content=b'40{"token": "ann"}')
            assert (await served.http.get(mine)).text.startswith("40")
            where = {"tenant": "home", "project": "demo", "conversation_id": conversation}
            await served.http.post(mine, content=f'420["join", {json.dumps(where)}]'.encode())
            told = ""
            while told.count('"conv.status"') < 2:
                told += (await served.http.get(mine)).text
            # From here on it does not come for what is told.
            stage.flooding.set()
            await served.ann.wait_for_state(conversation, "idle")
            await none_left(served)
            waiting = (await served.http.get(mine)).content
            assert len(waiting) < 100_000
            async with connected(served) as friend:
                await friend.join(conversation)
                await friend.until("chat.complete")
            assert friend.blocks == number_blocks(await served.ann.blocks(conversation))[: len(friend.blocks)]

    run(check)


def test_a_client_that_leaves_leaves_nothing_behind(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done."), rest_s=0.01).serve() as served:
            conversation = await begun(served)
            async with connected(served) as friend:
                await friend.join(conversation)
                await friend.until("conv.status")
                assert served.services.rate_limiter.open_streams == 1
            await none_left(served)

    run(check)


def test_what_is_said_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("my answer")).serve() as served:
            async with connected(served) as friend:
                await friend.join()
                await friend.client.call("chat.message", {"message": "my secret"})
                await friend.until("chat.complete")
            ours = [one for one in caplog.records if one.name.startswith("timeloom")]
            assert not any(
                word in JsonLogFormatter().format(one) for one in ours for word in ("my secret", "my answer")
            )

    with caplog.at_level(logging.INFO, "timeloom"):
        run(check)


async def shake_hands(served: RunningServer, **headers: str) -> int:
    """Open a session by polling and return the status of the answer."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return (await served.http.get("/socket.io/?EIO=4&transport=polling", headers=sent)).status_code


def test_sessions_without_a_token_are_limited_and_lock_nobody_out(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            while (status := await shake_hands(served)) == 200:
                pass
            assert status == 429
            # A token in the handshake needs no room of strangers.
            assert await shake_hands(served, authorization="Bearer ann") == 200
            # An old session makes room for a client that sends its token later.
            while await shake_hands(served) == 429:
                pass

    run(check)


def test_a_page_of_another_site_opens_no_session(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).serve() as served:
            for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
                assert await shake_hands(served, sec_fetch_site=site) == status

    run(check)


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path).open_services() as services:
            transport = httpx2.ASGITransport(app=socketio_app(services, "no_such_library"))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
                said = await http.get("/socket.io/")
            assert (said.status_code, said.json()["code"]) == (404, "route_unknown")
            assert "pip install 'timeloom[socketio]'" in said.json()["detail"]

    run(check)
