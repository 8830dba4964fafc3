"""Finds legal cuts: the points up to which history may be summarized without separating related entries.

A cut after seq `s` puts entry `s` and all earlier entries on one side. It is legal if a turn or a round begins directly
after it and no rule's span contains both `s` and `s + 1`. Each rule is one table, and a cut must satisfy all of them.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import ClassVar, Final, Literal

import msgspec

from timeloom.core.blocks import (
    BLOCK_CLASSES,
    AnyBlock,
    ApprovalDecided,
    ApprovalRequested,
    AttachmentMeta,
    ChannelText,
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
from timeloom.core.ids import CallId, TurnId
from timeloom.core.timeline import NO_TURN, Entry
from timeloom.core.view.block_view import BlockView, Folds, for_blocks

SpanEffect = Literal["open", "extend", "settle", "close"]
"""The effect of an entry on a span.

`open` starts the span and blocks all later cuts. `extend` adds the entry to a started span. `settle` adds the entry
and stops blocking later cuts. `close` adds the entry and ends the span.
"""


class SpanMark(msgspec.Struct, frozen=True):
    """The effect of an entry on the span with that key."""

    key: str
    does: SpanEffect


class CutRule(msgspec.Struct, frozen=True):
    """Entries that stay together: the span's name, and the effect of each block class on it.

    With `per_call`, each call has its own span, and a block without a call has no effect.
    """

    name: str
    effects: Mapping[type[AnyBlock], SpanEffect]
    per_call: bool = False

    def mark(self, entry: Entry) -> SpanMark | None:
        """Return the effect of the entry, or None if it has none."""
        key, does = self.key(entry.block), self.effects.get(type(entry.block))
        return SpanMark(key, does) if key and does else None

    def key(self, block: AnyBlock) -> str:
        """Return the key of the block's span; empty if the block has none."""
        if not self.per_call:
            return self.name
        call_id: CallId | None = getattr(block, "tool_call_id", None)
        return f"{self.name} {call_id}" if call_id else ""


KEEP_A_CALL_WITH_ITS_RESULTS: Final = CutRule(
    "call",
    {
        Notes: "open",
        ToolCode: "open",
        ToolCall: "open",
        ResultDigest: "settle",
        ResultStatus: "settle",
        Notice: "extend",
        Note: "extend",
        ResultContent: "extend",
    },
    per_call=True,
)
"""Keeps notes, code, call, notices and results of one call together.

While the call has no receipt, no cut after it is legal.
"""

KEEP_A_PROMPT_WITH_ITS_TURN: Final = CutRule(
    "prompt",
    {
        TurnStarted: "open",
        UserPrompt: "open",
        AttachmentMeta: "open",
        RoundStarted: "close",
        Thinking: "close",
        ChannelText: "close",
        Notes: "close",
        ToolCode: "close",
        ToolCall: "close",
        Completion: "close",
    },
)
"""Keeps the turn's header, the user's prompt and its attachments with the first round."""

KEEP_AN_ANSWER_WITH_ITS_REQUEST: Final = CutRule("model", {ModelCalled: "open", ModelAnswered: "close"})
"""Keeps a model's outcome with its request."""

KEEP_A_DECISION_WITH_ITS_QUESTION: Final = CutRule(
    "approval", {ApprovalRequested: "open", ApprovalDecided: "close"}, per_call=True
)
"""Keeps a person's decision with its approval request."""

RULES: Final = (
    KEEP_A_CALL_WITH_ITS_RESULTS,
    KEEP_A_PROMPT_WITH_ITS_TURN,
    KEEP_AN_ANSWER_WITH_ITS_REQUEST,
    KEEP_A_DECISION_WITH_ITS_QUESTION,
)

_RULES_OF: Final[dict[type[AnyBlock], tuple[tuple[CutRule, str, SpanEffect], ...]]] = {
    cls: tuple((rule, "" if rule.per_call else rule.name, rule.effects[cls]) for rule in RULES if cls in rule.effects)
    for cls in BLOCK_CLASSES
    if any(cls in rule.effects for rule in RULES)
}
"""The rules that apply to each block class, with the key unless each call has its own, and the effect of the class."""


class CutsView(BlockView, msgspec.Struct):
    """The legal cuts so far, and the spans of the current turn; the end of the turn, or the next turn, ends them."""

    legal: list[int] = []
    starts: dict[str, int] = {}
    open: dict[str, int] = {}
    turn_id: TurnId = NO_TURN

    def legal_after(self, seq: int) -> list[int]:
        """Return the legal cuts after that seq, in order."""
        return self.legal[bisect_right(self.legal, seq) :]

    def _begin(self, entry: Entry, block: TurnStarted | UserPrompt | RoundStarted) -> None:
        """Offer the cut before the first entry of a turn or round."""
        is_other_turn = entry.turn_id != self.turn_id
        if is_other_turn:
            self.turn_id = entry.turn_id
            self._end_spans()
        if entry.seq > 1 and not self.open and (is_other_turn or not isinstance(block, UserPrompt)):
            self.legal.append(entry.seq - 1)
        self._mark(entry, block)

    def _end_turn(self, entry: Entry, _: TurnEnded) -> None:
        if entry.turn_id == self.turn_id:
            self._end_spans()

    def _end_spans(self) -> None:
        self.starts.clear()
        self.open.clear()

    def _mark(self, entry: Entry, block: AnyBlock) -> None:
        """Apply the effects of the entry to the spans of its turn."""
        if entry.turn_id != self.turn_id:
            return
        for rule, name, does in _RULES_OF[type(block)]:
            key = name or rule.key(block)
            # Only `open` has an effect on a span that was not started.
            if key in self.starts or (key and does == "open"):
                self._apply(entry.seq, key, does)

    def _apply(self, seq: int, key: str, does: SpanEffect) -> None:
        if does == "open":
            start = self.open[key] = self.starts.setdefault(key, seq)
        elif does == "close":
            start = self.starts.pop(key)
            self.open.pop(key, None)
        else:
            start = self.starts[key]
            if does == "settle":
                self.open.pop(key, None)
        while self.legal and self.legal[-1] >= start:
            self.legal.pop()

    folds: ClassVar[Folds] = {
        **for_blocks(_RULES_OF, _mark),
        TurnStarted: _begin,
        UserPrompt: _begin,
        RoundStarted: _begin,
        TurnEnded: _end_turn,
    }
