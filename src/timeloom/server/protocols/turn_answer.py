"""Builds the text answer of a turn from its events, for clients that only support text."""

from typing import Final

import msgspec

from timeloom.core.blocks import Completion, ModelAnswered, TurnEnded
from timeloom.core.blocks.round import Usage
from timeloom.core.blocks.turn import EndReason
from timeloom.runtime.hub.events import ChatApproval, ChatBlock, ChatComplete, ChatDelta, ChatError, ChatStep, Event
from timeloom.wire.block_json import decode_block

ANSWER: Final = "answer"
EPOCH: Final = "1970-01-01T00:00:00.000000Z"

_BLOCK_TYPES: Final = frozenset(kind.type_name for kind in (Completion, ModelAnswered, TurnEnded))


class _TypedBlock(msgspec.Struct, frozen=True):
    type: str


class TurnAnswer:
    """The answer of a turn: its text while it arrives, its token usage and the reason of its end.

    With `only_stored`, the text is that of stored answers, as a structured answer may be refused after it streamed.
    """

    def __init__(self, *, only_stored: bool = False) -> None:
        self._only_stored = only_stored
        self.parts: list[str] = []
        self.usage = Usage()
        self.reason: EndReason | None = None
        self.end_text = ""
        """The message of the turn's end."""
        self.error: ChatError | None = None
        self._is_streaming = False
        """Whether deltas arrived whose block did not arrive yet."""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.parts)

    def add_event(self, event: Event) -> str:
        """Process the event and return the text that it adds."""
        match event:
            case ChatDelta(channel="answer"):
                return "" if self._only_stored else self._add_text(event.text)
            case ChatStep(step="model"):
                # The deltas so far have no block: the model is called again or continues after an interruption.
                self._is_streaming = False
            case ChatBlock():
                return self._add_block(event.block)
            case ChatApproval():
                self._is_streaming = False
                question = (
                    f"This waits for a person: may {event.tool_id} be called ({event.tool_call_id})? {event.text}"
                )
                return self._add_text(question.strip())
            case ChatComplete():
                self.reason = event.reason
            case ChatError():
                self.error = event
            case _:
                pass
        return ""

    def _add_text(self, text: str) -> str:
        piece = text if self._is_streaming or not self.parts else f"\n\n{text}"
        self._is_streaming = True
        self.parts.append(piece)
        return piece

    def _add_block(self, raw: msgspec.Raw) -> str:
        if msgspec.json.decode(raw, type=_TypedBlock).type not in _BLOCK_TYPES:
            return ""
        match decode_block(bytes(raw), EPOCH).block:
            case Completion(text=text):
                # A text that was streamed is not repeated.
                piece = "" if self._is_streaming or not isinstance(text, str) else self._add_text(text)
                self._is_streaming = False
                return piece
            case ModelAnswered(usage=usage):
                self.usage = _add_usage(self.usage, usage)
            case TurnEnded(text=text):
                self.end_text = text
            case _:
                pass
        return ""


def _add_usage(one: Usage, other: Usage) -> Usage:
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        cache_read_tokens=one.cache_read_tokens + other.cache_read_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
        cache_write_1h_tokens=one.cache_write_1h_tokens + other.cache_write_1h_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cost_nano_usd=one.cost_nano_usd + other.cost_nano_usd,
    )
