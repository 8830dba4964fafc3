"""Reply scripts, harnesses that run them, and call outcomes for the checks of the model contract."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Final, Literal, NamedTuple

import msgspec

from timeloom.core.blocks import Usage
from timeloom.ports.model import (
    Finished,
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
from timeloom.testing.fake_service import Answer, FakeService, Pause, fake_service
from timeloom.testing.model_endpoint.dialect import Dialect, Written

WAIT_S: Final = 30.0
"""Timeout of a check in seconds. A model that keeps the contract never reaches it."""

SHORT_S: Final = 0.2
"""Timeout of the model in checks in which the service never responds."""

USAGE: Final = Usage(input_tokens=20, cache_read_tokens=300, output_tokens=7)
KEY: Final = "contract.5f3a9b1c7d"
REQUEST: Final = ModelRequest(
    system="Answer.", segments=(TextSegment("What is it?", cache_point=True),), opening="What?"
)

Failure = Literal["overloaded", "context_too_long", "timeout"]


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """The scripted reply of a service to one call.

    Either pieces of text followed by an end, a cut or silence, or a failure at once.
    """

    pieces: Sequence[str] = ("It is ", "this.")
    ending: Literal["whole", "cut", "silence"] = "whole"
    failure: Failure | None = None


Stage = Callable[[Sequence[Play]], AbstractAsyncContextManager[Model]]
Check = Callable[[Stage], Coroutine[None, None, None]]


class HttpStage(NamedTuple):
    """A dialect, and the function that opens the model under test at a URL."""

    dialect: Dialect
    open_model: Callable[[str, str, Timeouts], Model]

    @asynccontextmanager
    async def playing(
        self, *answers: Answer, timeouts: Timeouts | None = None
    ) -> AsyncGenerator[tuple[Model, FakeService]]:
        """Yield the model and the service that it calls, and close both at the end."""
        async with fake_service(*answers) as service:
            model = self.open_model(service.url, KEY, timeouts or Timeouts())
            try:
                yield model, service
            finally:
                await model.close()

    def frames(self, play: Play) -> list[bytes]:
        """Return the frames of a reply, one for each part of it."""
        written = Written(model="m", usage=USAGE)
        frames = [self.dialect.opening("m", USAGE), *map(self.dialect.text, play.pieces)]
        return [*frames, self.dialect.closing(written)] if play.ending == "whole" else frames


HttpCheck = Callable[[HttpStage], Coroutine[None, None, None]]


class Outcome(NamedTuple):
    """The text, thinking and end of a call: `finished` or `error`."""

    text: str
    thinking: str
    finished: Finished | None
    error: ModelError | None


def over_http(stage: HttpStage) -> Stage:
    """Return a harness that runs scripts over HTTP in a dialect."""

    @asynccontextmanager
    async def play(plays: Sequence[Play]) -> AsyncGenerator[Model]:
        async with stage.playing(*(_answer(stage, one) for one in plays)) as (model, _):
            yield model

    return play


@asynccontextmanager
async def over_script(plays: Sequence[Play]) -> AsyncGenerator[Model]:
    """Yield a `ScriptedModel` that follows the scripts; this function is a harness itself."""
    steps = [
        Step(
            reply="".join(play.pieces),
            chunk=max(1, len(play.pieces[0])) if play.pieces else None,
            usage=USAGE,
            error="cut" if play.ending == "cut" else play.failure,
            delay_ms=WAIT_S * 1000 if play.ending == "silence" else 0,
        )
        for play in plays
    ]
    yield ScriptedModel([*steps[:-1], msgspec.structs.replace(steps[-1], repeat=True)])


async def outcome(model: Model, request: ModelRequest = REQUEST) -> Outcome:
    """Make a call and return its outcome. Fails if an event follows the end."""
    seen: list[ModelEvent] = []
    error: ModelError | None = None
    async with asyncio.timeout(WAIT_S), aclosing(model.stream(request)) as events:
        try:
            async for event in events:
                assert not (seen and isinstance(seen[-1], Finished)), f"after the end came {event}"
                seen.append(event)
        except ModelError as failed:
            error = failed
    finished = next((event for event in seen if isinstance(event, Finished)), None)
    assert (finished is None) != (error is None), "a call ends with `FinishEvent` or with a `ModelError`"
    text = "".join(event.text for event in seen if isinstance(event, TextPiece))
    thinking = "".join(event.text for event in seen if isinstance(event, ThinkingPiece))
    return Outcome(text, thinking, finished, error)


async def failed(model: Model, request: ModelRequest = REQUEST) -> ModelError:
    """Make a call and return the error with which it must end."""
    error = (await outcome(model, request)).error
    assert error is not None, "an error was expected, and the call came to its end"
    return error


def _answer(stage: HttpStage, play: Play) -> Answer:
    if play.failure is not None:
        status, body = stage.dialect.refusal(play.failure)
        return Answer(status=status, headers=(("content-type", "application/json"),), parts=(body,))
    if play.ending == "silence":
        return Answer(parts=(*stage.frames(play), Pause()))
    return Answer(parts=stage.frames(play), ending=play.ending)
