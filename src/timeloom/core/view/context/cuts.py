"""Finds legal cuts: the points up to which history may be summarized without separating related entries.

A cut after seq `s` puts entry `s` and all earlier entries on one side. It is legal if a turn or a round begins directly
after it and no rule's span contains both `s` and `s + 1`. Each rule is one small function, and a cut must satisfy all
rules.
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
    """The effect of an entry on the span with that key.

    `open` starts the span and blocks all later cuts. `extend` adds the entry to a started span. `settle` adds the entry
    and stops blocking later cuts. `close` adds the entry and ends the span.
    """

    key: str
    does: Literal["open", "extend", "settle", "close"]


CutRule = Callable[[Entry], SpanMark | None]


def keep_a_call_with_its_results(entry: Entry) -> SpanMark | None:
    """Keep notes, code, call, notices and results of one call together.

    While the call has no receipt, no cut after it is legal.
    """
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
    """Keep the turn's header, the user's prompt and its attachments with the first round."""
    match entry.block:
        case TurnStarted() | UserPrompt() | AttachmentMeta():
            return SpanMark("prompt", "open")
        case RoundStarted() | Thinking() | Notes() | ToolCode() | ToolCall() | Completion():
            return SpanMark("prompt", "close")
        case _:
            return None


def keep_an_answer_with_its_request(entry: Entry) -> SpanMark | None:
    """Keep a model's outcome with its request."""
    match entry.block:
        case ModelCalled():
            return SpanMark("model", "open")
        case ModelAnswered():
            return SpanMark("model", "close")
        case _:
            return None


def keep_a_decision_with_its_question(entry: Entry) -> SpanMark | None:
    """Keep a person's decision with its approval request."""
    match entry.block:
        case ApprovalRequested(tool_call_id=call_id):
            return SpanMark(f"approval {call_id}", "open")
        case ApprovalDecided(tool_call_id=call_id):
            return SpanMark(f"approval {call_id}", "close")
        case _:
            return None


RULES: Final[tuple[CutRule, ...]] = (
    keep_a_call_with_its_results,
    keep_a_prompt_with_its_turn,
    keep_an_answer_with_its_request,
    keep_a_decision_with_its_question,
)


class CutsView(msgspec.Struct):
    """The legal cuts so far, and the spans of the current turn; the end of the turn, or the next turn, ends them."""

    legal: list[int] = []
    starts: dict[str, int] = {}
    open: dict[str, int] = {}
    turn_id: TurnId = NO_TURN

    def add(self, entry: Entry) -> None:
        """Fold in the next entry; the cost depends only on its spans."""
        if isinstance(entry.block, TurnStarted | UserPrompt | RoundStarted):
            self._begin(entry)
        if entry.turn_id == self.turn_id:
            for rule in RULES:
                if mark := rule(entry):
                    self._mark(entry.seq, mark)
            if isinstance(entry.block, TurnEnded):
                self._end_turn()

    def legal_after(self, seq: int) -> list[int]:
        """Return the legal cuts after that seq, in order."""
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
