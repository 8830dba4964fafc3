"""The transport sessions of python-socketio: their ids, delivery and end.

python-socketio has no documented interface for them. So this module alone uses undocumented attributes of
python-socketio and python-engineio, and `tests/server/test_engineio_sessions.py` pins each of them.
"""

from collections.abc import Mapping
from typing import Any, Protocol, cast

from starlette.types import Scope


class _Queue(Protocol):
    async def join(self) -> None: ...
    async def put(self, packet: None) -> None: ...


class _Session(Protocol):
    """The part of `engineio.AsyncSocket` that is used here."""

    queue: _Queue
    closed: bool

    async def close(self, *, wait: bool, abort: bool) -> None: ...


class _EngineIo(Protocol):
    """The part of `engineio.AsyncServer` that is used here."""

    sockets: Mapping[str, _Session]


class _Manager(Protocol):
    """The part of `socketio.AsyncManager` that is used here."""

    def eio_sid_from_sid(self, sid: str, namespace: str) -> str | None: ...


class SocketIoInternals(Protocol):
    """The part of `socketio.AsyncServer` that is used here."""

    eio: _EngineIo
    manager: _Manager
    environ: Mapping[str, Mapping[str, Any]]


class EngineIoSessions:
    """The sessions of one Socket.IO server; a client has one before it is authenticated."""

    def __init__(self, server: SocketIoInternals) -> None:
        self._server = server

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all sessions, including those that are being closed."""
        return frozenset(self._server.eio.sockets)

    @property
    def count(self) -> int:
        """The number of all sessions."""
        return len(self._server.eio.sockets)

    def exists(self, session_id: str) -> bool:
        """Return whether the session has not ended."""
        return session_id in self._server.eio.sockets

    def find_id(self, sid: str) -> str:
        """Return the id of the session of this client in the default namespace; empty if there is none."""
        return self._server.manager.eio_sid_from_sid(sid, "/") or ""

    def find_scope(self, session_id: str) -> Scope | None:
        """Return the ASGI scope of the request that opened the session; None if the session has ended."""
        environ = self._server.environ.get(session_id)
        return handshake_scope(environ) if environ else None

    async def wait_for_delivery(self, session_id: str) -> None:
        """Wait until the client has taken all queued packets; return at once if the session is gone."""
        if session := self._server.eio.sockets.get(session_id):
            await session.queue.join()

    async def end_queue(self, session_id: str) -> None:
        """End the send queue after the queued packets; otherwise a pending long poll would never return."""
        if session := self._server.eio.sockets.get(session_id):
            await session.queue.put(None)

    async def close(self, session_id: str) -> None:
        """Close the session without waiting for its client."""
        session = self._server.eio.sockets.get(session_id)
        if session and not session.closed:
            await session.close(wait=False, abort=True)
            await session.queue.put(None)


def handshake_scope(environ: Mapping[str, Any]) -> Scope:
    """Return the ASGI scope of the request that opened the session."""
    return cast(Scope, environ["asgi.scope"])
