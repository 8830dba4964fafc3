"""Pins the parts of python-socketio and python-engineio that they do not document and timeloom needs.

Each test fails with a message that names the library and the need, so that a breaking upgrade is found here.
"""

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from typing import Any

import pytest

from timeloom.server.protocols.engineio_sessions import EngineIoSessions, handshake_scope

SOCKETIO, ENGINEIO = "python-socketio", "python-engineio"
OPTIONS = ("async_handlers", "cors_allowed_origins", "logger", "max_http_buffer_size")


def need(library: str, what: str, why: str) -> str:
    """Return the message of a broken pin."""
    return f"{library} {version(library)}: {what}; timeloom needs it to {why} (server/protocols/engineio_sessions.py)"


def attribute(library: str, owner: object, name: str, why: str) -> Any:
    """Return the attribute of a library object; fails with the need if it is missing."""
    assert hasattr(owner, name), need(library, f"{type(owner).__name__}.{name} is missing", why)
    return getattr(owner, name)


class Library:
    """A Socket.IO server of the library with one polling client, in process and without a network."""

    def __init__(self, *, logger: logging.Logger | bool = False) -> None:
        library: Any = import_module("socketio")
        self.server: Any = library.AsyncServer(
            async_mode="asgi", async_handlers=False, cors_allowed_origins=[], logger=logger, engineio_logger=logger
        )
        self.app: Any = library.ASGIApp(self.server)
        self.sessions = EngineIoSessions(self.server)
        self.sid = ""
        self.environ: Mapping[str, Any] = {}
        self.scopes: list[dict[str, Any]] = []
        self.left = asyncio.Event()
        self.server.on("connect", self._on_connect)
        self.server.on("disconnect", self._on_disconnect)
        self.server.on("fail", self._fail)

    async def _on_connect(self, sid: str, environ: Mapping[str, Any], _auth: object = None) -> None:
        self.sid, self.environ = sid, environ

    async def _on_disconnect(self, *_: object) -> None:
        self.left.set()

    async def _fail(self, *_: object) -> None:
        raise ValueError("a failed handler")

    async def request(self, method: str, session: str = "", body: bytes = b"") -> tuple[int, str]:
        """Send a request of the polling transport and return status and body of its response."""
        query = f"EIO=4&transport=polling{f'&sid={session}' if session else ''}".encode()
        headers = [(b"content-length", str(len(body)).encode())]
        scope = {"type": "http", "method": method, "path": "/socket.io/", "query_string": query, "headers": headers}
        self.scopes.append(scope)
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        return sent[0]["status"], sent[1]["body"].decode()

    async def connect(self) -> str:
        """Connect the client and return the id of its session."""
        session = str(json.loads((await self.request("GET"))[1][1:])["sid"])
        await self.request("POST", session, b"40")
        await self.request("GET", session)
        return session

    async def shut_down(self) -> None:
        """End the tasks that the library started for this server."""
        mine = asyncio.current_task()
        for task in asyncio.all_tasks() - {mine}:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def run(check: Callable[[Library], Awaitable[None]], *, logger: logging.Logger | bool = False) -> None:
    async def main() -> None:
        library = Library(logger=logger)
        try:
            async with asyncio.timeout(30):
                await check(library)
        finally:
            await library.shut_down()

    asyncio.run(main())


def test_the_session_of_a_client_is_in_the_table_of_sessions_by_its_id() -> None:
    async def check(library: Library) -> None:
        why = "count the sessions and find those of unauthenticated clients"
        sockets = attribute(ENGINEIO, attribute(SOCKETIO, library.server, "eio", why), "sockets", why)
        assert isinstance(sockets, Mapping), need(ENGINEIO, f"AsyncServer.sockets is a {type(sockets)}", why)
        assert library.sessions.count == 0
        session = await library.connect()
        assert library.sessions.ids == {session}, need(ENGINEIO, "AsyncServer.sockets has other keys than sids", why)
        assert (library.sessions.count, library.sessions.exists(session)) == (1, True)
        assert not library.sessions.exists("unknown")

    run(check)


def test_the_manager_knows_the_session_of_a_client() -> None:
    async def check(library: Library) -> None:
        why = "find the session of a client in its `connect` handler"
        find = attribute(SOCKETIO, attribute(SOCKETIO, library.server, "manager", why), "eio_sid_from_sid", why)
        assert tuple(inspect.signature(find).parameters) == ("sid", "namespace"), need(
            SOCKETIO, f"eio_sid_from_sid has the signature {inspect.signature(find)}", why
        )
        found: list[str] = []

        async def on_connect(sid: str, *_: object) -> None:
            found.append(library.sessions.find_id(sid))

        library.server.on("connect", on_connect)
        session = await library.connect()
        assert found == [session], need(SOCKETIO, "eio_sid_from_sid does not know a client that connects", why)
        assert library.sessions.find_id("unknown") == "", need(SOCKETIO, "eio_sid_from_sid knows any client", why)

    run(check)


def test_a_handler_gets_the_scope_of_the_request_that_opened_the_session() -> None:
    async def check(library: Library) -> None:
        why = "authenticate a client by the headers of its first request"
        await library.connect()
        assert "asgi.scope" in library.environ, need(ENGINEIO, "`asgi.scope` is not in the environ", why)
        assert handshake_scope(library.environ) is library.scopes[0], need(
            ENGINEIO, "`asgi.scope` is not the scope of the first request", why
        )

    run(check)


def test_the_server_keeps_the_scope_of_each_session() -> None:
    async def check(library: Library) -> None:
        why = "count the sessions of an address"
        attribute(SOCKETIO, library.server, "environ", why)
        session = await library.connect()
        assert library.sessions.find_scope(session) is library.scopes[0], need(SOCKETIO, "environ has no session", why)
        assert library.sessions.find_scope("unknown") is None

    run(check)


def test_a_session_closes_without_waiting_for_its_client() -> None:
    async def check(library: Library) -> None:
        why = "close the connections of clients that are rejected or do not read"
        session = library.server.eio.sockets[await library.connect()]
        close = attribute(ENGINEIO, session, "close", why)
        assert {"wait", "abort"} <= inspect.signature(close).parameters.keys(), need(
            ENGINEIO, f"AsyncSocket.close has the signature {inspect.signature(close)}", why
        )
        assert attribute(ENGINEIO, session, "closed", why) is False, need(ENGINEIO, "an open session is closed", why)
        await library.server.emit("news", to=library.sid)
        await library.sessions.close(session.sid)
        assert session.closed is True, need(ENGINEIO, "close(wait=False, abort=True) leaves the session open", why)
        assert library.left.is_set(), need(ENGINEIO, "close(wait=False, abort=True) reports no disconnect", why)
        await library.sessions.close(session.sid)
        await library.sessions.close("unknown")
        await library.request("GET", session.sid)
        assert not library.sessions.exists(session.sid), need(ENGINEIO, "a closed session stays in `sockets`", why)

    run(check)


def test_the_queue_of_a_session_is_joined_when_its_client_took_everything() -> None:
    async def check(library: Library) -> None:
        why = "wait until a slow client has received an event"
        session = await library.connect()
        queue = attribute(ENGINEIO, library.server.eio.sockets[session], "queue", why)
        assert isinstance(queue, asyncio.Queue), need(ENGINEIO, f"AsyncSocket.queue is a {type(queue)}", why)
        await library.sessions.wait_for_delivery(session)
        await library.server.emit("news", {"n": 1}, to=library.sid)
        delivery = asyncio.create_task(library.sessions.wait_for_delivery(session))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not delivery.done(), need(ENGINEIO, "queue.join() returns before the client polls", why)
        _, body = await library.request("GET", session)
        assert '"news"' in body
        await delivery
        await library.sessions.wait_for_delivery("unknown")

    run(check)


def test_none_in_the_queue_ends_a_pending_poll() -> None:
    async def check(library: Library) -> None:
        why = "end the long poll of a client whose connection closes"
        session = await library.connect()
        pending = asyncio.create_task(library.request("GET", session))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not pending.done()
        await library.sessions.end_queue(session)
        done, _ = await asyncio.wait({pending}, timeout=10)
        assert done, need(ENGINEIO, "None in AsyncSocket.queue does not end a poll", why)
        assert await pending == (200, ""), need(ENGINEIO, f"a poll ended with {pending.result()}", why)
        await library.sessions.end_queue("unknown")

    run(check)


def test_the_end_of_the_queue_comes_after_the_packets_in_it() -> None:
    async def check(library: Library) -> None:
        session = await library.connect()
        await library.server.emit("news", to=library.sid)
        await library.sessions.end_queue(session)
        assert '"news"' in (await library.request("GET", session))[1], need(
            ENGINEIO, "None in AsyncSocket.queue discards earlier packets", "send an error before it disconnects"
        )

    run(check)


@pytest.mark.parametrize("option", OPTIONS)
def test_the_options_of_the_server_exist(option: str) -> None:
    # Both libraries ignore unknown options silently, so a renamed one would remove a limit unnoticed.
    names = {
        name
        for server in (import_module("socketio").AsyncServer, import_module("engineio").AsyncServer)
        for kind in inspect.getmro(server)
        if kind is not object
        for name in inspect.signature(kind).parameters
    }
    assert option in names, need(SOCKETIO, f"the option {option} is missing", "limit and log what clients send")


def test_errors_of_clients_are_logged_without_a_traceback_and_failures_with_one() -> None:
    why = "log its own failures and not the errors of clients"
    records: list[logging.LogRecord] = []
    logger = logging.getLogger(f"{__name__}.pinned")
    logger.setLevel(logging.ERROR)
    logger.addFilter(lambda record: bool(records.append(record)))

    async def check(library: Library) -> None:
        session = await library.connect()
        await library.request("GET", "unknown")
        assert records, need(ENGINEIO, "an unknown session is not logged to `logger`", why)
        assert not any(record.exc_info for record in records), need(
            ENGINEIO, "an error of a client is logged with a traceback", why
        )
        records.clear()
        await library.request("POST", session, b'42["fail"]')
        assert any(record.exc_info for record in records), need(
            ENGINEIO, "a failed handler is logged without a traceback", why
        )

    run(check, logger=logger)
