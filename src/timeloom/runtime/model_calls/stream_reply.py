"""Streams a model's reply until it ends or is interrupted, and builds the outcome block."""

import asyncio
from contextlib import aclosing
from typing import Final, Protocol, TypeVar, assert_never

from timeloom.core.blocks import ModelAnswered, ModelCalled, Usage
from timeloom.core.policy.model_retry import MAX_RETRY_AFTER_S
from timeloom.core.stream.surrogates import replace_lone_surrogates
from timeloom.core.view.progress import STEERED_ERROR
from timeloom.platform.tasks import run_until_interrupted
from timeloom.ports.model import (
    MAX_CALL_S,
    FinishEvent,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
)
from timeloom.ports.reply_pieces import ReplyPieces

T = TypeVar("T")

MAX_DETAIL_CHARS: Final = 500
"""Maximum characters kept of a provider's error message."""

GRACE_S: Final = 1.0
"""Seconds that an adapter has to report its own timeout, with the usage so far, before its call is cancelled."""

ReplyEnd = FinishEvent | ModelError | None
"""How a reply ended: it finished, it failed, or it was interrupted (None)."""


class ReplySink(Protocol):
    """Receives a reply piece by piece while it streams."""

    def on_text(self, text: str) -> None:
        """Receive the next piece of the reply."""
        ...

    def on_thinking(self, text: str) -> None:
        """Receive the next piece of the thinking before the reply."""
        ...

    def on_tool_call(self, piece: ToolCallPiece) -> None:
        """Receive the next piece of a native tool call; only a request with tools gets any."""
        ...


async def stream_reply(
    model: Model, request: ModelRequest, sink: ReplySink, interrupt: asyncio.Event, call_s: float = MAX_CALL_S
) -> ReplyEnd:
    """Send the request, stream the reply into the sink and return how it ended; an interrupt stops it.

    A call that takes longer than `call_s` seconds ends as a timeout.
    """
    try:
        return await run_until_interrupted(interrupt, _consume_in_time(model, request, sink, call_s))
    except ModelError as error:
        return _reject_long_wait(error)
    except asyncio.CancelledError:
        # If this task was not cancelled, the cancellation came from within the model's own call.
        if _is_current_task_cancelled():
            raise
        return ModelError("cut", "the reply was given up by its model")


def build_outcome(call: ModelCalled, text: str, ending: ReplyEnd, tool_calls: str = "") -> ModelAnswered:
    """Return the outcome block of the call, with the text and the native tool calls that had arrived."""
    if isinstance(ending, FinishEvent):
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
            protocol=call.protocol,
            tool_calls=tool_calls,
        )
    kind = ending.kind if ending else STEERED_ERROR
    usage = ending.usage if ending else Usage()
    return ModelAnswered(
        round=call.round,
        model=call.model,
        stop_reason=kind,
        purpose=call.purpose,
        attempt=call.attempt,
        usage=usage,
        # Text that was written and a prompt that was interrupted are paid for, even if no usage was reported.
        usage_reported=usage != Usage() or (ending is not None and not text and not tool_calls),
        priced=ending.priced if ending else True,
        interrupted=bool(text or tool_calls),
        text=text,
        protocol=call.protocol,
        tool_calls=tool_calls,
        error=kind,
        detail=replace_lone_surrogates(str(ending)[:MAX_DETAIL_CHARS]) if ending else "",
    )


def _is_current_task_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or bool(task.cancelling())


def _reject_long_wait(error: ModelError) -> ModelError:
    """Return the error, or one that is not retried if the provider asks for a pause that is too long."""
    wait_s = error.retry_after_s
    # Written so that a pause that is not a number is too long as well.
    if wait_s is None or wait_s <= MAX_RETRY_AFTER_S or not error.retryable:
        return error
    asked = f"the provider asks to wait {wait_s:g} s, more than the {MAX_RETRY_AFTER_S:g} s that timeloom waits"
    late = ModelError("unavailable", f"{asked}; send another message later. {error}", usage=error.usage)
    late.priced = error.priced
    return late


async def _consume_in_time(model: Model, request: ModelRequest, sink: ReplySink, call_s: float) -> FinishEvent:
    deadline = asyncio.timeout(call_s + GRACE_S)
    try:
        async with deadline:
            return await _consume_stream(model, request, sink)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise ModelError(
            "timeout", f"the reply was not complete after {call_s:g} s; set timeouts.call_s if replies take longer"
        ) from error


async def _consume_stream(model: Model, request: ModelRequest, sink: ReplySink) -> FinishEvent:
    finished: FinishEvent | None = None
    # Adapters promise valid text of bounded length. It is ensured here too: half a character cannot be stored.
    pieces = ReplyPieces(request)
    try:
        async with aclosing(model.stream(request)) as events:
            # Read beyond the last event to the end of the stream, so that the connection can be reused.
            async for event in events:
                for piece in pieces.take(event):
                    finished = _pass_on(piece, sink) or finished
    finally:
        for piece in pieces.close():
            _pass_on(piece, sink)
    if finished is None:
        raise ModelError("cut", "the reply ended without its end")
    return finished


def _pass_on(event: ModelEvent, sink: ReplySink) -> FinishEvent | None:
    """Pass a piece to the sink; return the event that ends the reply."""
    match event:
        case TextPiece(text=text):
            sink.on_text(text)
        case ThinkingPiece(text=text):
            sink.on_thinking(text)
        case ToolCallPiece():
            sink.on_tool_call(event)
        case FinishEvent():
            return event
        case _:
            assert_never(event)
    return None
