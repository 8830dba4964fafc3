"""Reply scripts, harnesses that run them, and call outcomes for the checks of the model contract."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Final, Literal, NamedTuple

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import (
    FinishEvent,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextPiece,
    TextSegment,
    ThinkingPiece,
)
from timeloom.providers.script import ScriptedModel, Step
from timeloom.providers.settings import Timeouts
from timeloom.testing.fake_service import STREAM_HEADERS, FakeResponse, FakeService, Stall, fake_service
from timeloom.testing.model_endpoint.dialect import Dialect, EndpointReply

WAIT_S: Final = 30.0
"""Timeout of a check in seconds. A model that keeps the contract never reaches it."""

SHORT_S: Final = 0.2
"""Timeout of the model in checks in which the service never responds."""

USAGE: Final = Usage(input_tokens=20, cache_read_tokens=300, output_tokens=7)
KEY: Final = "contract.5f3a9b1c7d"
REQUEST: Final = ModelRequest(
    system="Answer.", segments=(TextSegment("What is it?", cache_point=True),), opening="What?"
)

FailureKind = Literal["overloaded", "context_too_long", "timeout"]


class ReplyScript(msgspec.Struct, frozen=True, kw_only=True):
    """The scripted reply of a service to one call.

    Either pieces of text followed by an end, a cut or silence, or a failure at once.
    """

    pieces: Sequence[str] = ("It is ", "this.")
    ending: Literal["whole", "cut", "silence"] = "whole"
    failure: FailureKind | None = None


ModelHarness = Callable[[Sequence[ReplyScript]], AbstractAsyncContextManager[Model]]
Check = Callable[[ModelHarness], Coroutine[None, None, None]]


class HttpHarness(NamedTuple):
    """A dialect, and the function that opens the model under test at a URL."""

    dialect: Dialect
    open_model: Callable[[str, str, Timeouts], Model]
    media_type: str = "text/event-stream"
    """The content type of the service's streams."""

    @asynccontextmanager
    async def open_with_service(
        self, *responses: FakeResponse, timeouts: Timeouts | None = None
    ) -> AsyncGenerator[tuple[Model, FakeService]]:
        """Yield the model and the service that it calls, and close both at the end."""
        async with fake_service(*map(self._with_media_type, responses)) as service:
            model = self.open_model(service.url, KEY, timeouts or Timeouts())
            try:
                yield model, service
            finally:
                await model.close()

    def _with_media_type(self, response: FakeResponse) -> FakeResponse:
        if tuple(response.headers[: len(STREAM_HEADERS)]) != STREAM_HEADERS:
            return response
        return msgspec.structs.replace(
            response, headers=(("content-type", self.media_type), *response.headers[len(STREAM_HEADERS) :])
        )

    def frames(self, script: ReplyScript) -> list[bytes]:
        """Return the frames of a reply, one for each part of it."""
        reply = EndpointReply(model="m", usage=USAGE)
        frames = [self.dialect.opening_frames("m", USAGE), *map(self.dialect.text_frame, script.pieces)]
        return [*frames, self.dialect.closing_frames(reply)] if script.ending == "whole" else frames


HttpCheck = Callable[[HttpHarness], Coroutine[None, None, None]]


class CallOutcome(NamedTuple):
    """The text, thinking and end of a call: `finished` or `error`."""

    text: str
    thinking: str
    finished: FinishEvent | None
    error: ModelError | None


def over_http(harness: HttpHarness) -> ModelHarness:
    """Return a harness that runs scripts over HTTP in a dialect."""

    @asynccontextmanager
    async def open_model(scripts: Sequence[ReplyScript]) -> AsyncGenerator[Model]:
        async with harness.open_with_service(*(_response_of(harness, one) for one in scripts)) as (model, _):
            yield model

    return open_model


@asynccontextmanager
async def over_script(
    scripts: Sequence[ReplyScript], open_scripted: Callable[[Sequence[Step]], Model] = ScriptedModel
) -> AsyncGenerator[Model]:
    """Yield a `ScriptedModel`, or a subclass of it, that follows the scripts; this function is a harness itself."""
    steps = [
        Step(
            reply="".join(script.pieces),
            chunk=max(1, len(script.pieces[0])) if script.pieces else None,
            usage=USAGE,
            error="cut" if script.ending == "cut" else script.failure,
            delay_ms=WAIT_S * 1000 if script.ending == "silence" else 0,
        )
        for script in scripts
    ]
    yield open_scripted([*steps[:-1], msgspec.structs.replace(steps[-1], repeat=True)])


async def call_model(model: Model, request: ModelRequest = REQUEST) -> CallOutcome:
    """Make a call and return its outcome. Fails if an event follows the end."""
    seen: list[ModelEvent] = []
    error: ModelError | None = None
    async with asyncio.timeout(WAIT_S), aclosing(model.stream(request)) as events:
        try:
            async for event in events:
                assert not (seen and isinstance(seen[-1], FinishEvent)), f"after the end came {event}"
                seen.append(event)
        except ModelError as failed:
            error = failed
    finished = next((event for event in seen if isinstance(event, FinishEvent)), None)
    assert (finished is None) != (error is None), "a call ends with `FinishEvent` or with a `ModelError`"
    text = "".join(event.text for event in seen if isinstance(event, TextPiece))
    thinking = "".join(event.text for event in seen if isinstance(event, ThinkingPiece))
    return CallOutcome(text, thinking, finished, error)


async def expect_model_error(model: Model, request: ModelRequest = REQUEST) -> ModelError:
    """Make a call and return the error with which it must end."""
    error = (await call_model(model, request)).error
    assert error is not None, "an error was expected, and the call came to its end"
    return error


def _response_of(harness: HttpHarness, script: ReplyScript) -> FakeResponse:
    if script.failure is not None:
        status, body = harness.dialect.error_response(script.failure)
        return FakeResponse(status=status, headers=(("content-type", "application/json"),), parts=(body,))
    if script.ending == "silence":
        return FakeResponse(parts=(*harness.frames(script), Stall()))
    return FakeResponse(parts=harness.frames(script), ending=script.ending)
