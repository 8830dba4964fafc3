"""Runs the HTTP server on an open socket until it is shut down."""

import asyncio
import signal
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import uvicorn

from timeloom.server.app import make_app
from timeloom.server.http.header_limits import bounded_heads
from timeloom.server.http.websocket_denial import QuietDenials
from timeloom.server.services import Services

SHUTDOWN_S: Final = 5
"""Seconds that requests may take after the shutdown began; streams end at once."""

BACKLOG: Final = 2048

PING_S: Final = 20.0
"""Seconds between two pings of a WebSocket, and the longest wait for the pong."""


class _Server(uvicorn.Server):
    """A uvicorn server that installs no signal handlers."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class Serving:
    """The HTTP server of these services."""

    def __init__(self, place: Services, ping_s: float = PING_S, proxies: Sequence[str] = ()) -> None:
        self._place = place
        config = uvicorn.Config(
            make_app(place),
            log_config=None,
            access_log=False,
            lifespan="off",
            http=bounded_heads(place.gate.limits.head_s),
            server_header=False,
            date_header=False,
            ws=QuietDenials,
            ws_max_size=place.max_body_bytes,
            ws_ping_interval=ping_s,
            ws_ping_timeout=ping_s,
            # Messages are short, and each connection would need memory for a compression window.
            ws_per_message_deflate=False,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        self._server = _Server(config)

    async def serve(self, listener: socket.socket) -> None:
        """Serve until `shut_down`; then all requests have ended and the hub is still open."""
        await self._server.serve(sockets=[listener])

    def leave(self) -> None:
        """End all streams and accept no new connections; a second call does not wait for running requests either."""
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True
        self._place.hub.hang_up()

    def leave_at_signals(self) -> None:
        """Shut down on SIGINT and SIGTERM."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.leave)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on that host and port; raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # asyncio sets this only on sockets that it creates itself; without it a delta waits 40 ms for the previous one.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
