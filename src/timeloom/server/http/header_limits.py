"""Limits connections, and the size and the arrival time of request headers, which uvicorn leaves to a proxy."""

import asyncio
from functools import partial
from typing import Any, Final, cast

from starlette.types import Scope
from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from timeloom.server.auth.authenticate import ON_AUTHENTICATED
from timeloom.server.http.connection_limits import ConnectionGuard

MAX_HEAD_BYTES: Final = 64 * 1024
"""Maximum size of the URL, headers and trailers together; more than any browser sends."""

LINGER_S: Final = 0.5
"""Seconds for which further data is dropped before closing. Closing at once could lose the response."""

_LINE_BYTES: Final = len(": \r\n")

_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\n"
_BUSY: Final = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\n"
_CLOSE_HEADERS: Final = b"content-length: 0\r\nconnection: close\r\n\r\n"


class HeaderLimitProtocol(HttpToolsProtocol):
    """Closes connections whose request headers are too large or do not arrive in time, and those beyond a limit."""

    head_s = 10.0
    guard: ConnectionGuard

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._head_bytes = 0
        self._parsed_bytes = 0
        self._is_rejected = False
        self._deadline: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if self.guard.admit(transport, self.client[0] if self.client else ""):
            self._start_deadline()
        else:
            self._is_rejected = True
            transport.write(_BUSY + _CLOSE_HEADERS)
            transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self.guard.release(self.transport)
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_rejected:
            return
        super().data_received(data)
        if self._deadline is None:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._reject(_TOO_LARGE)

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast(Scope, self.scope)[ON_AUTHENTICATED] = partial(self.guard.trust, self.transport)
        self._start_deadline()

    @override
    def on_url(self, url: bytes) -> None:
        self._count_bytes(len(url))
        super().on_url(url)

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_bytes(len(name) + len(value) + _LINE_BYTES)
        super().on_header(name, value)

    @override
    def on_headers_complete(self) -> None:
        self._cancel_deadline()
        super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        self.guard.set_busy(self.transport, True)
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        self.guard.set_busy(self.transport, False)
        super().on_response_complete()

    @override
    def send_400_response(self, msg: str) -> None:
        if self._parsed_bytes > MAX_HEAD_BYTES:
            self._reject(_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def _count_bytes(self, size_bytes: int) -> None:
        self._parsed_bytes += size_bytes
        if self._parsed_bytes > MAX_HEAD_BYTES:
            # The exception stops the parser, so the rest of this chunk is not parsed.
            raise ValueError("the request headers are too large")

    def _start_deadline(self) -> None:
        self._cancel_deadline()
        self._head_bytes = self._parsed_bytes = 0
        self._deadline = self.loop.call_later(self.head_s, self._reject, _TOO_SLOW)

    def _cancel_deadline(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _reject(self, status: bytes) -> None:
        self._cancel_deadline()
        if not self._is_rejected and not self.transport.is_closing():
            self._is_rejected = True
            self.transport.write(status + _CLOSE_HEADERS)
            self.loop.call_later(LINGER_S, self.transport.close)


def header_limit_protocol(most_s: float, connection_guard: ConnectionGuard) -> type[HeaderLimitProtocol]:
    """Return the protocol class with this many seconds for the request headers."""

    class _ConfiguredProtocol(HeaderLimitProtocol):
        head_s = most_s
        guard = connection_guard

    return _ConfiguredProtocol
