"""Running the server: on a socket that is open already, until it is told to leave."""

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
"""How long requests may take after the server was told to leave; streams end at once."""

BACKLOG: Final = 2048

PING_S: Final = 20.0
"""How often a WebSocket is asked whether its other end is there, and how long the answer may take."""


class _Server(uvicorn.Server):
    """A server that leaves signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class Serving:
    """A server over a place, and the way to end it."""

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
            # What is sent is short, and a window for each connection is not.
            ws_per_message_deflate=False,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        self._server = _Server(config)

    async def serve(self, listener: socket.socket) -> None:
        """Serves until it is told to leave; then requests are ended, and the hub is still open."""
        await self._server.serve(sockets=[listener])

    def leave(self) -> None:
        """Ends all streams and takes nothing any more; said twice, it does not wait for requests either."""
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True
        self._place.hub.hang_up()

    def leave_at_signals(self) -> None:
        """Leaves at SIGINT and SIGTERM."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.leave)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # asyncio sees to it only on sockets that it made itself; without it a delta waits 40 ms for the one before.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
