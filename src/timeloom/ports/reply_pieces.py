"""Makes the pieces of a model's reply valid Unicode of bounded length; adapters and the runtime share it."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from timeloom.core.stream.surrogates import SurrogateJoiner, replace_lone_surrogates
from timeloom.ports.model import (
    FinishEvent,
    ModelError,
    ModelEvent,
    ModelRequest,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
)

CALL_CHARS: Final = 256
"""Characters that the name of a tool call counts as, so that a reply of endless empty calls ends, too."""

MAX_NAME_CHARS: Final = 256
"""Characters kept of the name of a tool call. Names of tools are shorter; a longer one names no tool."""


class ReplyPieces:
    """Joins surrogate pairs across the pieces of one reply, replaces lone surrogates by U+FFFD and bounds the length.

    A service may cut an emoji into the JSON escapes `\\ud83d` and `\\ude00` of two events. Neither half can be stored,
    so the first half waits for the next piece.
    """

    __slots__ = ("_calls", "_chars_left", "_request", "_text", "_thinking")

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._chars_left = request.max_reply_chars
        self._text = SurrogateJoiner()
        self._thinking = SurrogateJoiner()
        self._calls: dict[int, SurrogateJoiner] = {}

    def take(self, event: ModelEvent) -> Sequence[ModelEvent]:
        """Return the events to pass on for this event of the model; none while half of a pair is held back.

        Raises `ModelError` of the kind `cut` for a piece beyond `max_reply_chars`.
        """
        if isinstance(event, FinishEvent):
            return (*self.close(), _with_valid_name(event))
        self._chars_left -= len(event.text)
        if self._chars_left < 0:
            raise runaway_error(self._request)
        if isinstance(event, ToolCallPiece):
            return self._take_call(event)
        joiner = self._text if isinstance(event, TextPiece) else self._thinking
        if not joiner.half and event.text.isascii():
            return (event,)
        text = joiner.feed(event.text)
        return (replace(event, text=text),) if text else ()

    def close(self) -> Sequence[ModelEvent]:
        """Return a piece for each half that is held back at the end of the reply, also of a cut one."""
        thinking, text = self._thinking.close(), self._text.close()
        calls = [ToolCallPiece(index, half) for index, one in self._calls.items() if (half := one.close())]
        return (*((ThinkingPiece(thinking),) if thinking else ()), *((TextPiece(text),) if text else ()), *calls)

    def _take_call(self, piece: ToolCallPiece) -> Sequence[ModelEvent]:
        self._chars_left -= CALL_CHARS if piece.name else 0
        if self._chars_left < 0:
            raise runaway_error(self._request)
        text = self._calls.setdefault(piece.index, SurrogateJoiner()).feed(piece.text)
        name = replace_lone_surrogates(piece.name[:MAX_NAME_CHARS])
        return (ToolCallPiece(piece.index, text, name),) if text or name else ()


def runaway_error(request: ModelRequest) -> ModelError:
    """Return the error for a reply that is far longer than its `max_output_tokens`."""
    return ModelError(
        "cut",
        f"the reply is longer than {request.max_output_tokens} tokens (max_output_tokens) can be and was stopped; "
        "check whether the service obeys this limit",
    )


def _with_valid_name(event: FinishEvent) -> FinishEvent:
    return event if event.model.isascii() else replace(event, model=replace_lone_surrogates(event.model))
