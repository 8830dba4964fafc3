"""Hearing a model's reply to its end, or until somebody interrupts it, and the outcome that is recorded of it."""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Final, Protocol, TypeVar, assert_never

from timeloom.core.blocks import ModelAnswered, ModelCalled, Usage
from timeloom.core.stream.surrogates import mended
from timeloom.core.view.progress import STEERED
from timeloom.ports.model import Finished, Model, ModelError, ModelRequest, TextPiece, ThinkingPiece

T = TypeVar("T")

MAX_DETAIL_CHARS: Final = 500
"""How much of a provider's own words about a failure is kept."""

Ending = Finished | ModelError | None
"""How a reply ended: it came to its end, it failed, or it was given up."""


class Hearer(Protocol):
    """Takes in a reply as it comes."""

    def take(self, text: str) -> None:
        """More of the reply."""
        ...

    def think(self, text: str) -> None:
        """More of what was thought before it."""
        ...


async def hear_reply(model: Model, request: ModelRequest, hearer: Hearer, interrupt: asyncio.Event) -> Ending:
    """Sends the request and says how the reply to it ended; an interrupt gives it up."""
    try:
        return await unless(interrupt, _listen(model, request, hearer))
    except ModelError as error:
        return error
    except asyncio.CancelledError:
        # Nobody gave this task up: it was the model's own call that was cancelled, somewhere below.
        if _is_cancelled():
            raise
        return ModelError("cut", "the reply was given up by its model")


async def unless(interrupt: asyncio.Event, work: Coroutine[object, object, T]) -> T | None:
    """What the work comes to; None if the interrupt came first, and then the work is given up."""
    if interrupt.is_set():
        work.close()
        return None
    task = asyncio.current_task()
    assert task is not None
    others, given_up = task.cancelling(), False

    def give_up(waiting: "asyncio.Task[object]") -> None:
        nonlocal given_up
        if not waiting.cancelled():
            given_up = task.cancel()

    # The work itself has no task of its own: it begins at once, and not after all that waits for its turn by now.
    waiting = asyncio.create_task(interrupt.wait())
    waiting.add_done_callback(give_up)
    try:
        done = await work
    except (asyncio.CancelledError, Exception):
        if not given_up or task.uncancel() > others:
            raise
        return None
    finally:
        waiting.remove_done_callback(give_up)
        waiting.cancel()
    if given_up:
        task.uncancel()
        return None
    return done


def outcome_of(call: ModelCalled, text: str, ending: Ending) -> ModelAnswered:
    """The outcome of that call, with what had arrived of the reply."""
    if isinstance(ending, Finished):
        return ModelAnswered(
            round=call.round,
            model=ending.model or call.model,
            stop_reason=ending.stop_reason,
            purpose=call.purpose,
            attempt=call.attempt,
            usage=ending.usage,
            usage_reported=ending.usage_reported,
            priced=ending.priced,
            text=text,
        )
    kind = ending.kind if ending else STEERED
    usage = ending.usage if ending else Usage()
    return ModelAnswered(
        round=call.round,
        model=call.model,
        stop_reason=kind,
        purpose=call.purpose,
        attempt=call.attempt,
        usage=usage,
        # What was written was paid for, and so was a prompt that was given up, whether or not anybody said how much.
        usage_reported=usage != Usage() or (ending is not None and not text),
        priced=ending.priced if ending else True,
        interrupted=bool(text),
        text=text,
        error=kind,
        detail=mended(str(ending)[:MAX_DETAIL_CHARS]) if ending else "",
    )


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or bool(task.cancelling())


async def _listen(model: Model, request: ModelRequest, hearer: Hearer) -> Finished:
    finished: Finished | None = None
    async with aclosing(model.stream(request)) as events:
        # To its end, also after the last event: the connection can be used again then.
        async for event in events:
            match event:
                case TextPiece(text=text):
                    hearer.take(text)
                case ThinkingPiece(text=text):
                    hearer.think(text)
                case Finished():
                    finished = event
                case _:
                    assert_never(event)
    if finished is None:
        raise ModelError("cut", "the reply ended without its end")
    return finished
