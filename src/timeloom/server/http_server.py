"""Runs the HTTP server on an open socket until it is shut down."""

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

import uvicorn
from typing_extensions import override
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from timeloom.server.app import build_app
from timeloom.server.http.connection_limits import ConnectionGuard, reserved_descriptors
from timeloom.server.http.header_limits import header_limit_protocol
from timeloom.server.services import Services

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

SHUTDOWN_S: Final = 5
"""Seconds that requests may take after the shutdown began; streams end at once."""

BACKLOG: Final = 2048
"""Connections that may wait to be accepted, where the limit of open descriptors allows it."""

PING_S: Final = 20.0
"""Seconds between two pings of a WebSocket, and the longest wait for the pong."""


class _UvicornServer(uvicorn.Server):
    """A uvicorn server that installs no signal handlers."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class _WebSocketProtocol(WebSocketsSansIOProtocol):
    """Counts its connection, and treats a rejected handshake as complete, so uvicorn logs no error."""

    guard: ConnectionGuard

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.guard.release(self.transport)
        super().connection_lost(exc)

    @override
    async def send(self, message: "ASGISendEvent") -> None:
        if message["type"] == "websocket.accept":
            # Its handshake had a valid token; `socketio` limits clients that send theirs later.
            self.guard.trust(self.transport)
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True


class ListenError(OSError):
    """The server cannot listen on its host and port; `strerror` says why."""


class HttpServer:
    """The HTTP server of these services."""

    def __init__(self, services: Services, ping_s: float = PING_S, proxies: Sequence[str] = ()) -> None:
        self._services = services
        limits = services.rate_limiter.limits
        connection_guard = ConnectionGuard(
            services.metrics,
            most=limits.connections,
            most_per_address=limits.connections_per_address,
            proxies=proxies,
        )

        class _ConfiguredWebSocketProtocol(_WebSocketProtocol):
            guard = connection_guard

        config = uvicorn.Config(
            build_app(services),
            backlog=_backlog(),
            log_config=None,
            access_log=False,
            lifespan="off",
            http=header_limit_protocol(limits.head_s, connection_guard),
            server_header=False,
            date_header=False,
            ws=_ConfiguredWebSocketProtocol,
            ws_max_size=services.max_body_bytes,
            ws_ping_interval=ping_s,
            ws_ping_timeout=ping_s,
            # Messages are short, and each connection would need memory for a compression window.
            ws_per_message_deflate=False,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        self._server = _UvicornServer(config)

    async def serve(self, listener: socket.socket) -> None:
        """Serve until `shut_down`; then all requests have ended and the hub is still open."""
        await self._server.serve(sockets=[listener])

    @asynccontextmanager
    async def serve_in_background(self, listener: socket.socket) -> AsyncGenerator["asyncio.Task[None]"]:
        """Serve in the yielded task; when the context exits, shut down and wait until all requests have ended."""
        serving = asyncio.create_task(self.serve(listener), name="serving")
        try:
            yield serving
        finally:
            if not self._server.should_exit:
                self.shut_down()
            await serving

    def shut_down(self) -> None:
        """End all streams and accept no new connections; a second call does not wait for running requests either."""
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True
        self._services.hub.stop_accepting()

    def shut_down_on_signals(self) -> None:
        """Shut down on SIGINT and SIGTERM."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.shut_down)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on that host and port; raises `ListenError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_backlog())
    except OSError as error:
        raise ListenError(*error.args) from error
    # asyncio sets this only on sockets that it creates itself; without it a delta waits 40 ms for the previous one.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _backlog() -> int:
    # The event loop accepts all waiting connections at once, and more before it has closed others for them.
    return int(min(BACKLOG, reserved_descriptors() / 8))
