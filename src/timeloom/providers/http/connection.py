"""Sends requests and reads responses over one HTTP/1.1 connection, one after another."""

import asyncio
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from timeloom.providers.http.answer import TransportError
from timeloom.providers.read_timeout import ReadTimeout

MAX_HEAD_BYTES: Final = 64 * 1024
"""Maximum size of status line and headers; a service that sends more fails."""

MAX_HELD_BYTES: Final = 256 * 1024
"""Maximum of unread body bytes; beyond it, reading from the socket is paused."""


class HttpConnection(asyncio.Protocol):
    """One connection: send a request, read its response to the end, send the next; or drop the connection."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._read_timeout = ReadTimeout()
        self._waiter: asyncio.Future[None] | None = None
        self._closed = self._loop.create_future()
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._head_bytes = 0
        self._has_head = False
        self._awaits_response = False
        self._keeps_alive = True
        self._paused = False
        self._failure = ""

    @property
    def is_reusable(self) -> bool:
        """Whether the response is complete and the next request can be sent."""
        transport = self._transport
        if transport is None or self._awaits_response or self._pieces or self._failure or transport.is_closing():
            return False
        # Unsent bytes of a request that was rejected early would precede the next request.
        return self._keeps_alive and not transport.get_write_buffer_size()

    async def send(self, request: bytes) -> None:
        """Send the request and wait for the response headers; raises `TransportError`."""
        if self._transport is None:
            raise TransportError("the connection was closed")
        self._parser = HttpResponseParser(self)
        self._has_head, self._head_bytes, self._awaits_response = False, 0, True
        self._transport.write(request)
        while not self._has_head and self._awaits_response:
            await self._wait_for_data()
        if not self._has_head:
            raise TransportError(self._failure or "the connection was closed before an answer came")

    async def read(self, limit_s: float) -> bytes:
        """Return the next bytes of the body; empty at its end or if the connection broke. Raises `TimeoutError`."""
        while not self._pieces and self._awaits_response:
            waiter = self._wait_for_data()
            self._read_timeout.limit(waiter, limit_s)
            await waiter
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._held_bytes = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def drop(self) -> None:
        """Close the connection at once and discard unread data."""
        if self._transport is not None:
            self._transport.abort()
        # Awaited, so that the connection is closed when the caller continues.
        await asyncio.wait({self._closed})

    def _wait_for_data(self) -> asyncio.Future[None]:
        """Return a future that is done when data or the end arrives; not a coroutine, to save time per chunk."""
        self._waiter = self._loop.create_future()
        return self._waiter

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._awaits_response:
            self._fail("the service sent data without a request")
            return
        if not self._has_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(f"what it sent is not HTTP/1.1: {error}")
        if not self._has_head and self._head_bytes > MAX_HEAD_BYTES:
            self._fail(f"its headers are larger than {MAX_HEAD_BYTES} bytes")
        if self._held_bytes > MAX_HELD_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport, self._awaits_response = None, False
        self._failure = self._failure or (str(exc) if exc else "")
        self._closed.set_result(None)
        self._wake()

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self._has_head:
            # Data after the end of the response would be taken for a part of it or for the next response.
            raise TransportError("a second answer")
        self.headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:
            # Trailers after the body are ignored: they are not needed and could be endless.
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        # Interim responses (1xx) precede the final one.
        self._has_head = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._held_bytes += len(body)
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self._awaits_response = not self._has_head
        self._keeps_alive = self._parser.should_keep_alive()

    def _fail(self, failure: str) -> None:
        self._failure, self._awaits_response = self._failure or failure, False
        if self._transport is not None:
            self._transport.abort()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and (self._pieces or self._has_head or not self._awaits_response):
            self._waiter = None
            # The waiting task may have been cancelled.
            if not waiter.done():
                waiter.set_result(None)
