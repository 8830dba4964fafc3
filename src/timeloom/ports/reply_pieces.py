"""Makes the pieces of a model's reply valid Unicode; adapters and the runtime share it."""

from collections.abc import Sequence

from msgspec.structs import replace

from timeloom.core.stream.surrogates import SurrogateJoiner, replace_lone_surrogates
from timeloom.ports.model import FinishEvent, ModelEvent, TextPiece, ThinkingPiece


class ReplyPieces:
    """Joins surrogate pairs across the pieces of one reply and replaces lone surrogates by U+FFFD.

    A service may cut an emoji into the JSON escapes `\\ud83d` and `\\ude00` of two events. Neither half can be stored,
    so the first half waits for the next piece.
    """

    __slots__ = ("_text", "_thinking")

    def __init__(self) -> None:
        self._text = SurrogateJoiner()
        self._thinking = SurrogateJoiner()

    def take(self, event: ModelEvent) -> Sequence[ModelEvent]:
        """Return the events to pass on for this event of the model; none while half of a pair is held back."""
        if isinstance(event, FinishEvent):
            return (*self.close(), _with_valid_name(event))
        joiner = self._text if isinstance(event, TextPiece) else self._thinking
        if not joiner.half and event.text.isascii():
            return (event,)
        text = joiner.feed(event.text)
        return (replace(event, text=text),) if text else ()

    def close(self) -> Sequence[ModelEvent]:
        """Return a piece for each half that is held back at the end of the reply, also of a cut one."""
        thinking, text = self._thinking.close(), self._text.close()
        return (*((ThinkingPiece(thinking),) if thinking else ()), *((TextPiece(text),) if text else ()))


def _with_valid_name(event: FinishEvent) -> FinishEvent:
    return event if event.model.isascii() else replace(event, model=replace_lone_surrogates(event.model))
