"""Legal cuts: the places where history may be summed up without tearing apart what belongs together.

A cut after seq `s` puts entry `s` and all before it on one side. It is legal where a turn or a round begins right
after it and no rule's span holds `s` and `s + 1` together. Each rule is one small function; a cut must please all.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from timeloom.core.blocks import (
    ApprovalDecided,
    ApprovalRequested,
    AttachmentMeta,
    Completion,
    ModelAnswered,
    ModelCalled,
    Note,
    Notes,
    Notice,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    Thinking,
    ToolCall,
    ToolCode,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import TurnId
from timeloom.core.timeline import NO_TURN, Entry


class SpanMark(msgspec.Struct, frozen=True):
    """What an entry does to the span with that key.

    `open` begins it and lets it hold all that follows, `extend` adds an entry to a span that began, `settle` adds
    one after which the span holds only what it has, and `close` adds one after which it is over.
    """

    key: str
    does: Literal["open", "extend", "settle", "close"]


Rule = Callable[[Entry], SpanMark | None]


def keep_a_call_with_its_results(entry: Entry) -> SpanMark | None:
    """Notes, code, call, notices and results of one call stay together; without a receipt nothing after it is cut."""
    match entry.block:
        case Notes(tool_call_id=call_id) | ToolCode(tool_call_id=call_id) | ToolCall(tool_call_id=call_id):
            return SpanMark(f"call {call_id}", "open")
        case ResultDigest(tool_call_id=call_id) | ResultStatus(tool_call_id=call_id):
            return SpanMark(f"call {call_id}", "settle")
        case Notice(tool_call_id=call_id) | Note(tool_call_id=call_id) | ResultContent(tool_call_id=call_id) if call_id:
            return SpanMark(f"call {call_id}", "extend")
        case _:
            return None


def keep_a_prompt_with_its_turn(entry: Entry) -> SpanMark | None:
    """The header of a turn, the user's prompt and its attachments stay with the first round."""
    match entry.block:
        case TurnStarted() | UserPrompt() | AttachmentMeta():
            return SpanMark("prompt", "open")
        case RoundStarted() | Thinking() | Notes() | ToolCode() | ToolCall() | Completion():
            return SpanMark("prompt", "close")
        case _:
            return None


def keep_an_answer_with_its_request(entry: Entry) -> SpanMark | None:
    """A model's outcome stays with its call."""
    match entry.block:
        case ModelCalled():
            return SpanMark("model", "open")
        case ModelAnswered():
            return SpanMark("model", "close")
        case _:
            return None


def keep_a_decision_with_its_question(entry: Entry) -> SpanMark | None:
    """What a person decided stays with what the person was asked."""
    match entry.block:
        case ApprovalRequested(tool_call_id=call_id):
            return SpanMark(f"approval {call_id}", "open")
        case ApprovalDecided(tool_call_id=call_id):
            return SpanMark(f"approval {call_id}", "close")
        case _:
            return None


RULES: Final[tuple[Rule, ...]] = (
    keep_a_call_with_its_results,
    keep_a_prompt_with_its_turn,
    keep_an_answer_with_its_request,
    keep_a_decision_with_its_question,
)


class CutsView(msgspec.Struct):
    """The legal cuts so far, and the spans of the turn that is running; a turn's end, or the next turn, ends them."""

    legal: list[int] = []
    starts: dict[str, int] = {}
    open: dict[str, int] = {}
    turn_id: TurnId = NO_TURN

    def add(self, entry: Entry) -> None:
        """Takes in the next entry; the cost follows its own spans."""
        if isinstance(entry.block, TurnStarted | UserPrompt | RoundStarted):
            self._begin(entry)
        if entry.turn_id == self.turn_id:
            for rule in RULES:
                if mark := rule(entry):
                    self._mark(entry.seq, mark)
            if isinstance(entry.block, TurnEnded):
                self._end_turn()

    def after(self, seq: int) -> list[int]:
        """The legal cuts after that seq, in order."""
        return self.legal[bisect_right(self.legal, seq) :]

    def _begin(self, entry: Entry) -> None:
        if entry.turn_id != self.turn_id:
            self.turn_id = entry.turn_id
            self._end_turn()
        elif isinstance(entry.block, UserPrompt):
            return
        if entry.seq > 1 and not self.open:
            self.legal.append(entry.seq - 1)

    def _end_turn(self) -> None:
        self.starts.clear()
        self.open.clear()

    def _mark(self, seq: int, mark: SpanMark) -> None:
        if mark.does == "open":
            start = self.open[mark.key] = self.starts.setdefault(mark.key, seq)
        elif mark.does == "close":
            start = self.starts.pop(mark.key, seq)
        else:
            start = self.starts.get(mark.key, seq)
        if mark.does in ("settle", "close"):
            self.open.pop(mark.key, None)
        while self.legal and self.legal[-1] >= start:
            self.legal.pop()
