"""What the checks of the model contract are built from: plays, stages that play them, and what came of a call."""

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
"""How long a check waits for what must happen; never reached by a model that keeps the contract."""

SHORT_S: Final = 0.2
"""The timeout of a check in which the service is silent for ever."""

USAGE: Final = Usage(input_tokens=20, cache_read_tokens=300, output_tokens=7)
KEY: Final = "contract.5f3a9b1c7d"
REQUEST: Final = ModelRequest(
    system="Answer.", segments=(TextSegment("What is it?", cache_point=True),), opening="What?"
)

Failure = Literal["overloaded", "context_too_long", "timeout"]


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """What the service does with one call: pieces of a reply, then its end, a cut, or silence; or a failure at once."""

    pieces: Sequence[str] = ("It is ", "this.")
    ending: Literal["whole", "cut", "silence"] = "whole"
    failure: Failure | None = None


Stage = Callable[[Sequence[Play]], AbstractAsyncContextManager[Model]]
Check = Callable[[Stage], Coroutine[None, None, None]]


class HttpStage(NamedTuple):
    """A dialect, and how the model under test is opened at a URL."""

    dialect: Dialect
    open_model: Callable[[str, str, Timeouts], Model]

    @asynccontextmanager
    async def playing(
        self, *answers: Answer, timeouts: Timeouts | None = None
    ) -> AsyncGenerator[tuple[Model, FakeService]]:
        """The model and the service that it asks."""
        async with fake_service(*answers) as service:
            model = self.open_model(service.url, KEY, timeouts or Timeouts())
            try:
                yield model, service
            finally:
                await model.close()

    def frames(self, play: Play) -> list[bytes]:
        """The frames of a reply, one for each part of it."""
        written = Written(model="m", usage=USAGE)
        frames = [self.dialect.opening("m", USAGE), *map(self.dialect.text, play.pieces)]
        return [*frames, self.dialect.closing(written)] if play.ending == "whole" else frames


HttpCheck = Callable[[HttpStage], Coroutine[None, None, None]]


class Outcome(NamedTuple):
    """What came of a call."""

    text: str
    thinking: str
    finished: Finished | None
    error: ModelError | None


def over_http(stage: HttpStage) -> Stage:
    """The stage that plays over HTTP, in the form of a dialect."""

    @asynccontextmanager
    async def play(plays: Sequence[Play]) -> AsyncGenerator[Model]:
        async with stage.playing(*(_answer(stage, one) for one in plays)) as (model, _):
            yield model

    return play


@asynccontextmanager
async def over_script(plays: Sequence[Play]) -> AsyncGenerator[Model]:
    """The stage on which the scripted model plays."""
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
    """The whole call, to its end or its error; after the end nothing may come."""
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
    assert (finished is None) != (error is None), "a call ends with `Finished` or with a `ModelError`"
    text = "".join(event.text for event in seen if isinstance(event, TextPiece))
    thinking = "".join(event.text for event in seen if isinstance(event, ThinkingPiece))
    return Outcome(text, thinking, finished, error)


async def failed(model: Model, request: ModelRequest = REQUEST) -> ModelError:
    """The error that the call must end with."""
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
