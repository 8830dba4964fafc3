"""Sends requests and reads responses over one HTTP/1.1 connection, one after another."""

import asyncio
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from timeloom.providers.http.answer import TransportError
from timeloom.providers.read_timeout import Patience

MAX_HEAD_BYTES: Final = 64 * 1024
"""Maximum size of status line and headers; a service that sends more fails."""

MAX_HELD_BYTES: Final = 256 * 1024
"""Maximum of unread body bytes; beyond it, reading from the socket is paused."""


class Connection(asyncio.Protocol):
    """One connection: send a request, read its response to the end, send the next; or drop the connection."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._patience = Patience()
        self._waiter: asyncio.Future[None] | None = None
        self._gone = self._loop.create_future()
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._head_bytes = 0
        self._has_head = False
        self._asking = False
        self._keeps_alive = True
        self._paused = False
        self._trouble = ""

    @property
    def reusable(self) -> bool:
        """Whether the response is complete and the next request can be sent."""
        transport = self._transport
        if transport is None or self._asking or self._pieces or self._trouble or transport.is_closing():
            return False
        # Unsent bytes of a request that was rejected early would precede the next request.
        return self._keeps_alive and not transport.get_write_buffer_size()

    async def ask(self, request: bytes) -> None:
        """Send the request and wait for the response headers; raises `TransportError`."""
        if self._transport is None:
            raise TransportError("the connection was closed")
        self._parser = HttpResponseParser(self)
        self._has_head, self._head_bytes, self._asking = False, 0, True
        self._transport.write(request)
        while not self._has_head and self._asking:
            await self._more()
        if not self._has_head:
            raise TransportError(self._trouble or "the connection was closed before an answer came")

    async def read(self, limit_s: float) -> bytes:
        """Return the next bytes of the body; empty at its end or if the connection broke. Raises `TimeoutError`."""
        while not self._pieces and self._asking:
            waiter = self._more()
            self._patience.limit(waiter, limit_s)
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
        await asyncio.wait({self._gone})

    def _more(self) -> asyncio.Future[None]:
        """Return a future that is done when data or the end arrives; not a coroutine, to save time per chunk."""
        self._waiter = self._loop.create_future()
        return self._waiter

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._asking:
            self._fail("the service sent what nobody had asked for")
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
        self._transport, self._asking = None, False
        self._trouble = self._trouble or (str(exc) if exc else "")
        self._gone.set_result(None)
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
        self._asking = not self._has_head
        self._keeps_alive = self._parser.should_keep_alive()

    def _fail(self, trouble: str) -> None:
        self._trouble, self._asking = self._trouble or trouble, False
        if self._transport is not None:
            self._transport.abort()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and (self._pieces or self._has_head or not self._asking):
            self._waiter = None
            # The waiting task may have been cancelled.
            if not waiter.done():
                waiter.set_result(None)
