"""Makes the pieces of a model's reply valid Unicode of bounded length; adapters and the runtime share it."""

from collections.abc import Sequence

from msgspec.structs import replace

from timeloom.core.stream.surrogates import SurrogateJoiner, replace_lone_surrogates
from timeloom.ports.model import FinishEvent, ModelError, ModelEvent, ModelRequest, TextPiece, ThinkingPiece


class ReplyPieces:
    """Joins surrogate pairs across the pieces of one reply, replaces lone surrogates by U+FFFD and bounds the length.

    A service may cut an emoji into the JSON escapes `\\ud83d` and `\\ude00` of two events. Neither half can be stored,
    so the first half waits for the next piece.
    """

    __slots__ = ("_chars_left", "_request", "_text", "_thinking")

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._chars_left = request.max_reply_chars
        self._text = SurrogateJoiner()
        self._thinking = SurrogateJoiner()

    def take(self, event: ModelEvent) -> Sequence[ModelEvent]:
        """Return the events to pass on for this event of the model; none while half of a pair is held back.

        Raises `ModelError` of the kind `cut` for a piece beyond `max_reply_chars`.
        """
        if isinstance(event, FinishEvent):
            return (*self.close(), _with_valid_name(event))
        self._chars_left -= len(event.text)
        if self._chars_left < 0:
            raise runaway_error(self._request)
        joiner = self._text if isinstance(event, TextPiece) else self._thinking
        if not joiner.half and event.text.isascii():
            return (event,)
        text = joiner.feed(event.text)
        return (replace(event, text=text),) if text else ()

    def close(self) -> Sequence[ModelEvent]:
        """Return a piece for each half that is held back at the end of the reply, also of a cut one."""
        thinking, text = self._thinking.close(), self._text.close()
        return (*((ThinkingPiece(thinking),) if thinking else ()), *((TextPiece(text),) if text else ()))


def runaway_error(request: ModelRequest) -> ModelError:
    """Return the error for a reply that is far longer than its `max_output_tokens`."""
    return ModelError(
        "cut",
        f"the reply is longer than {request.max_output_tokens} tokens (max_output_tokens) can be and was stopped; "
        "check whether the service obeys this limit",
    )


def _with_valid_name(event: FinishEvent) -> FinishEvent:
    return event if event.model.isascii() else replace(event, model=replace_lone_surrogates(event.model))
