"""Sends one request to a model service over HTTP and streams its reply from server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from timeloom.core.blocks import Usage
from timeloom.platform.secrets import SECRETS
from timeloom.ports.clock import Clock, SystemClock
from timeloom.ports.model import FinishEvent, ModelError, ModelEvent, ModelRequest
from timeloom.ports.reply_pieces import ReplyPieces, runaway_error
from timeloom.providers.errors import ReportedError, parse_error_body, redact, retry_after_s, to_model_error
from timeloom.providers.http.answer import HttpResponse, Transport, TransportError
from timeloom.providers.http.transport import open_transport
from timeloom.providers.prices import Cost
from timeloom.providers.real_models import check_service_allowed
from timeloom.providers.settings import HttpClient, Timeouts
from timeloom.providers.sse import SseDecoder, SseEvent, StreamError

MAX_BYTES_PER_TOKEN: Final = 4096
"""Bytes of a response per token, with framing and escapes. Less cuts replies of services with long events; more accepts
more of a service that does not stop by itself."""

MIN_REPLY_BYTES: Final = 1024 * 1024
"""Bytes that every response may have, also one to a request for a few tokens."""

MAX_ERROR_BYTES: Final = 64 * 1024
DRAIN_S: Final = 1.0
"""Time to read the rest of a finished stream, so that its connection can be reused."""

CALL_NUMBER_HEADER: Final = "x-timeloom-call-number"
PURPOSE_HEADER: Final = "x-timeloom-purpose"


class EventDecoder(Protocol):
    """Decodes the bytes of one response into events."""

    def feed(self, piece: bytes, /) -> list[SseEvent]:
        """Add bytes and return the events that they complete; raises `StreamError`."""
        ...


class StreamFormat(msgspec.Struct, frozen=True):
    """The format of the event streams of a service: its media type and its decoder."""

    media_type: str
    decoder: Callable[[], EventDecoder]


SSE: Final = StreamFormat("text/event-stream", SseDecoder)


class ModelService(msgspec.Struct, frozen=True, kw_only=True):
    """URL, headers and timeouts of a service; its `repr` shows only the name, because `headers` contain the API key."""

    name: str
    url: str
    headers: Mapping[str, str]
    secret: str = ""
    timeouts: Timeouts = Timeouts()
    http_client: HttpClient = "auto"
    format: StreamFormat = SSE

    def __repr__(self) -> str:
        return f"Service({self.name})"


class ServiceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a service, the model request that it encodes, and a function that prices its usage."""

    request: ModelRequest
    body: bytes
    headers: Mapping[str, str]
    cost: Callable[[Usage], Cost]


class ReplyParser(Protocol):
    """Folds the events of one stream into model events."""

    @property
    def done(self) -> bool:
        """Whether the last event of the reply was returned."""
        ...

    @property
    def usage(self) -> Usage:
        """The usage that the service has reported so far."""
        ...

    def feed(self, event: SseEvent) -> list[ModelEvent]:
        """Return the model events of this event; raises `ModelError`."""
        ...

    def end(self) -> list[ModelEvent]:
        """Return the model events at the end of the stream; raises `ModelError` if it ended too early."""
        ...


class ServiceClient:
    """Sends requests to one service and keeps its connections open for the next."""

    def __init__(self, service: ModelService, clock: Clock | None = None) -> None:
        self._service = service
        SECRETS.remember(service.secret)
        self._clock = clock or SystemClock()
        self._transport: Transport | None = None

    async def stream_reply(self, request: ServiceRequest, parser: ReplyParser) -> AsyncGenerator[ModelEvent]:
        """Send the call and yield the events of its reply; a `ModelError` carries the usage so far."""
        reader = _ReplyReader(self._service, request.request, parser)
        try:
            response = await self._send(request)
            try:
                await self._check_response(response)
                # A single async generator from the socket to the caller, because each further one costs time per piece.
                while chunk := await reader.within_limit(response.read):
                    for piece in reader.feed(chunk):
                        yield _with_price(piece, request.cost) if isinstance(piece, FinishEvent) else piece
                    if parser.done:
                        await _drain(response)
                        return
                for piece in reader.end():
                    yield _with_price(piece, request.cost) if isinstance(piece, FinishEvent) else piece
            finally:
                await response.close()
        except ModelError as error:
            for piece in reader.close():
                yield piece
            self._add_usage(error, request, parser)
            raise

    async def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    async def _send(self, request: ServiceRequest) -> HttpResponse:
        service, name, timeouts = self._service, self._service.name, self._service.timeouts
        check_service_allowed(name, service.url)
        self._transport = self._transport or open_transport(service.url, timeouts.connect_s, service.http_client)
        accept = {"accept": service.format.media_type}
        headers = {**service.headers, **REQUEST_HEADERS, **accept, **request.headers}
        limit_s = min(timeouts.first_byte_s, timeouts.call_s)
        try:
            async with asyncio.timeout(limit_s):
                return await self._transport.post(headers, request.body)
        except TimeoutError as error:
            raise ModelError("timeout", f"{name} did not answer within {limit_s:g} s") from error
        except TransportError as error:
            reason = redact(str(error), self._service.secret)
            raise ModelError("unreachable", f"{name} cannot be reached: {reason}") from error

    async def _check_response(self, response: HttpResponse) -> None:
        """Raise the `ModelError` for a response that is not an event stream."""
        name, expected = self._service.name, self._service.format.media_type
        kind = response.headers.get("content-type", expected).partition(";")[0].strip().lower()
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        if response.status == 200 and kind == expected and not packed:
            return
        reported = parse_error_body(await self._read_error_body(response))
        reported = ReportedError(
            type=reported.type, code=reported.code, message=redact(reported.message, self._service.secret)
        )
        if response.status == 200:
            got = f"compressed {kind}" if packed else kind
            raise ModelError("invalid", f"{name} answered with {redact(got)}; {expected} was expected")
        if response.status < 400:
            reported = ReportedError(message="it points elsewhere, or is no such service; check its base URL")
        wait_s = retry_after_s(response.headers, self._clock.epoch_us())
        raise to_model_error(name, response.status, reported, retry_after_s=wait_s)

    async def _read_error_body(self, response: HttpResponse) -> bytes:
        """Return the beginning of the body of an error response, as much as can be read in time."""
        body, limit_s = bytearray(), self._service.timeouts.between_bytes_s
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while len(body) < MAX_ERROR_BYTES and (chunk := await response.read(limit_s)):
                    body += chunk[: MAX_ERROR_BYTES - len(body)]
        return bytes(body)

    def _add_usage(self, error: ModelError, request: ServiceRequest, parser: ReplyParser) -> None:
        """Add the usage so far to the error, because a cut reply costs money too, and remove the API key from it."""
        cost = request.cost(parser.usage)
        error.usage, error.priced = _with_cost(parser.usage, cost), cost.known or parser.usage == Usage()
        if self._service.secret:
            error.args = (str(error).replace(self._service.secret, "…"),)


class _ReplyReader:
    """Decodes the body of a response into model events, within limits of size and time."""

    def __init__(self, service: ModelService, request: ModelRequest, parser: ReplyParser) -> None:
        self._service = service
        self._request = request
        self._parser = parser
        self._decoder = service.format.decoder()
        self._pieces = ReplyPieces(request)
        self._bytes_left = MIN_REPLY_BYTES + MAX_BYTES_PER_TOKEN * (request.max_output_tokens + request.thinking_tokens)
        self._loop = asyncio.get_running_loop()
        self._call_ends_at = self._loop.time() + service.timeouts.call_s
        self._idle_s = service.timeouts.first_byte_s
        self._idle_since = 0.0
        self._has_event = True
        """Whether an event arrived since the last read; the wait for the next one begins with the next read."""

    async def within_limit(self, read: Callable[[float], Awaitable[bytes]]) -> bytes:
        """Return the next bytes of the body; raises `ModelError` if no event arrives in time."""
        now = self._loop.time()
        if self._has_event:
            self._idle_since, self._has_event = now, False
        ends_at = min(self._idle_since + self._idle_s, self._call_ends_at)
        try:
            if ends_at <= now:
                raise TimeoutError
            return await read(ends_at - now)
        except TimeoutError as error:
            raise self._late_error(ends_at) from error

    def feed(self, chunk: bytes) -> Iterator[ModelEvent]:
        """Add bytes and yield the model events that they complete; raises `ModelError`."""
        self._bytes_left -= len(chunk)
        if self._bytes_left < 0:
            raise runaway_error(self._request)
        try:
            events = self._decoder.feed(chunk)
        except StreamError as error:
            raise ModelError("invalid", f"{self._service.name} sent a stream that cannot be read: {error}") from error
        if events:
            self._has_event, self._idle_s = True, self._service.timeouts.between_bytes_s
        for event in events:
            for part in self._parser.feed(event):
                yield from self._pieces.take(part)

    def end(self) -> Iterator[ModelEvent]:
        """Yield the model events at the end of the stream; raises `ModelError` if it ended too early."""
        for part in self._parser.end():
            yield from self._pieces.take(part)

    def close(self) -> Sequence[ModelEvent]:
        """Return the pieces that are held back when the reply is cut."""
        return self._pieces.close()

    def _late_error(self, ended_at: float) -> ModelError:
        name, timeouts = self._service.name, self._service.timeouts
        if ended_at == self._call_ends_at:
            return ModelError("timeout", f"{name} did not finish its reply within {timeouts.call_s:g} s")
        return ModelError("timeout", f"{name} sent nothing for {self._idle_s:g} s, apart from comments")


async def _drain(response: HttpResponse) -> None:
    """Read the rest of the response after the last event, so that the connection can be reused."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while await response.read(DRAIN_S):
                pass


REQUEST_HEADERS: Final = {
    "accept-encoding": "identity",
    "content-type": "application/json",
}
"""Headers of every request. `identity` prevents a small compressed response from expanding into a large one."""


def call_headers(request: ModelRequest) -> dict[str, str]:
    """Return headers that identify the call for a scripted model behind HTTP."""
    return {CALL_NUMBER_HEADER: str(request.number), PURPOSE_HEADER: request.purpose}


def _with_price(event: FinishEvent, cost_of: Callable[[Usage], Cost]) -> FinishEvent:
    cost = cost_of(event.usage)
    return msgspec.structs.replace(event, usage=_with_cost(event.usage, cost), priced=cost.known)


def _with_cost(usage: Usage, cost: Cost) -> Usage:
    return msgspec.structs.replace(usage, cost_nano_usd=cost.nano_usd)
