"""The exchange with a model's service: one request over HTTP, its answer as server-sent events."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from functools import cache
from typing import Final, Protocol

import httpx2
import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.clock import Clock, SystemClock
from timeloom.ports.model import Finished, ModelError, ModelEvent, ModelRequest
from timeloom.providers.failures import Said, failure, presentable, retry_after_s, said_in
from timeloom.providers.patience import Patience
from timeloom.providers.prices import Cost
from timeloom.providers.settings import Timeouts
from timeloom.providers.sse import SseDecoder, SseError, SseEvent

MAX_REPLY_BYTES: Final = 256 * 1024 * 1024
"""Of a whole stream, framing included; a service that sends more has run away."""

MAX_REFUSAL_BYTES: Final = 64 * 1024
DRAIN_S: Final = 1.0
"""How long the end of a finished stream is waited for, so that its connection can be used again."""

CALL_NUMBER_HEADER: Final = "x-timeloom-call-number"
PURPOSE_HEADER: Final = "x-timeloom-purpose"


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """Where a service is and how it is asked; never shown, for `headers` carry the key."""

    name: str
    url: str
    headers: Mapping[str, str]
    secret: str = ""
    timeouts: Timeouts = Timeouts()

    def __repr__(self) -> str:
        return f"Service({self.name})"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a service, and how its usage becomes money."""

    body: bytes
    headers: Mapping[str, str]
    cost: Callable[[Usage], Cost]


class Reply(Protocol):
    """A fold over the events of one stream."""

    @property
    def done(self) -> bool:
        """Whether the last event has been given out."""
        ...

    @property
    def usage(self) -> Usage:
        """What the service has reported until now."""
        ...

    def feed(self, event: SseEvent) -> list[ModelEvent]:
        """What the event adds to the reply; raises `ModelError`."""
        ...

    def end(self) -> list[ModelEvent]:
        """What the end of the stream adds; raises `ModelError` where it came too early."""
        ...


class Exchange:
    """Requests to one service; connections are kept for the next."""

    def __init__(self, service: Service, clock: Clock | None = None) -> None:
        self._service = service
        self._clock = clock or SystemClock()
        self._client: httpx2.AsyncClient | None = None

    async def reply(self, call: Call, reply: Reply) -> AsyncGenerator[ModelEvent]:
        """The events of a reply, folded from the answer to this call; a `ModelError` carries the usage so far."""
        try:
            async with aclosing(self._batches(call)) as batches:
                async for batch in batches:
                    for event in batch:
                        for piece in reply.feed(event):
                            yield _priced(piece, call.cost) if isinstance(piece, Finished) else piece
                    if reply.done:
                        await _drain(batches)
                        return
                for piece in reply.end():
                    yield _priced(piece, call.cost) if isinstance(piece, Finished) else piece
        except ModelError as error:
            # What was cut was paid for all the same.
            cost = call.cost(reply.usage)
            error.usage, error.priced = _with_cost(reply.usage, cost), cost.known or reply.usage == Usage()
            if self._service.secret:
                error.args = (str(error).replace(self._service.secret, "…"),)
            raise

    async def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _batches(self, call: Call) -> AsyncGenerator[list[SseEvent]]:
        response = await self._send(call)
        try:
            await self._accept(response)
            async with aclosing(self._read(response)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            await response.aclose()

    async def _send(self, call: Call) -> httpx2.Response:
        name, timeouts = self._service.name, self._service.timeouts
        client = self._open()
        request = client.build_request("POST", self._service.url, content=call.body, headers={**call.headers})
        try:
            async with asyncio.timeout(timeouts.first_byte_s):
                return await client.send(request, stream=True)
        except TimeoutError as error:
            raise ModelError("timeout", f"{name} did not answer within {timeouts.first_byte_s:g} s") from error
        except httpx2.TransportError as error:
            reason = presentable(str(error), self._service.secret) or type(error).__name__
            raise ModelError("unreachable", f"{name} cannot be reached: {reason}") from error

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            timeout = httpx2.Timeout(None, connect=self._service.timeouts.connect_s)
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
            headers = {**self._service.headers, **WANTED}
            self._client = httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits, verify=_certificates())
        return self._client

    async def _accept(self, response: httpx2.Response) -> None:
        """Raises what a response means that is not a stream of events."""
        name = self._service.name
        kind = response.headers.get("content-type", "text/event-stream").partition(";")[0].strip().lower()
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        if response.status_code == 200 and kind == "text/event-stream" and not packed:
            return
        said = said_in(await self._refusal(response))
        said = Said(type=said.type, code=said.code, message=presentable(said.message, self._service.secret))
        if response.status_code == 200:
            got = f"compressed {kind}" if packed else kind
            raise ModelError("invalid", f"{name} answered with {presentable(got)}; text/event-stream was expected")
        if response.status_code < 400:
            said = Said(message="it points elsewhere, or is no such service; check its base URL")
        wait_s = retry_after_s(response.headers, self._clock.epoch_us())
        raise failure(name, response.status_code, said, retry_after_s=wait_s)

    async def _refusal(self, response: httpx2.Response) -> bytes:
        """The beginning of a refusal's body; what cannot be read is left out."""
        body = bytearray()
        with suppress(TimeoutError, httpx2.TransportError):
            async with (
                asyncio.timeout(self._service.timeouts.between_bytes_s),
                aclosing(response.aiter_raw()) as chunks,
            ):
                async for chunk in chunks:
                    body += chunk[: MAX_REFUSAL_BYTES - len(body)]
                    if len(body) >= MAX_REFUSAL_BYTES:
                        break
        return bytes(body)

    async def _read(self, response: httpx2.Response) -> AsyncGenerator[list[SseEvent]]:
        """The events as they come, several at a time; ends with the stream, however that ended."""
        name, limit_s = self._service.name, self._service.timeouts.first_byte_s
        decoder, total = SseDecoder(), 0
        async with aclosing(response.aiter_raw()) as chunks:
            patience = Patience()
            while True:
                try:
                    # Around one read and never around a `yield`: the time that a caller takes is its own.
                    with patience.limited(limit_s):
                        chunk = await anext(chunks, None)
                except TimeoutError as error:
                    raise ModelError("timeout", f"{name} sent nothing for {limit_s:g} s") from error
                except httpx2.TransportError:
                    return
                if chunk is None:
                    return
                limit_s = self._service.timeouts.between_bytes_s
                total += len(chunk)
                if total > MAX_REPLY_BYTES:
                    raise ModelError("invalid", f"{name} sent more than {MAX_REPLY_BYTES} bytes in one reply")
                if batch := _decoded(name, decoder, chunk):
                    yield batch


WANTED: Final = {"accept": "text/event-stream", "accept-encoding": "identity", "content-type": "application/json"}
"""Uncompressed, so that no small answer becomes a large one."""


def call_headers(request: ModelRequest) -> dict[str, str]:
    """What tells a scripted model behind HTTP which call this is."""
    return {CALL_NUMBER_HEADER: str(request.number), PURPOSE_HEADER: request.purpose}


@cache
def _certificates() -> ssl.SSLContext:
    """The certificates that this machine trusts, loaded once; that takes longer than a request on loopback."""
    return httpx2.create_ssl_context()


def _priced(event: Finished, cost_of: Callable[[Usage], Cost]) -> Finished:
    cost = cost_of(event.usage)
    return msgspec.structs.replace(event, usage=_with_cost(event.usage, cost), priced=cost.known)


def _with_cost(usage: Usage, cost: Cost) -> Usage:
    return msgspec.structs.replace(usage, cost_nano_usd=cost.nano_usd)


async def _drain(batches: AsyncGenerator[list[SseEvent]]) -> None:
    with suppress(TimeoutError, ModelError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in batches:
                pass


def _decoded(name: str, decoder: SseDecoder, chunk: bytes) -> list[SseEvent]:
    try:
        return decoder.feed(chunk)
    except SseError as error:
        raise ModelError("invalid", f"{name} sent a stream that cannot be read: {error}") from error
