"""The view of pruning and compaction so far, and of the entries that every summary keeps."""

from typing import ClassVar, Final

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    ExternalEvent,
    Followup,
    ModelAnswered,
    ModelCalled,
    Note,
    Notice,
    Pruned,
    RangeSummary,
    ResultContent,
    ResultDigest,
    ResultStatus,
    Steer,
    UserPrompt,
)
from timeloom.core.timeline import NO_TURN, Entry
from timeloom.core.view.block_view import BlockView, Folds, for_all_blocks, for_blocks

_SHOWN_TO_THE_MODEL: Final = (
    UserPrompt,
    Followup,
    Steer,
    ExternalEvent,
    Attachment,
    AttachmentMeta,
    Notice,
    ResultStatus,
    ResultDigest,
    ResultContent,
)
"""Blocks from outside the model, which a summary must not cover before the model has seen them."""


class ForgettingView(BlockView, msgspec.Struct):
    """The positions at which the next pruning or compaction starts, so that old entries are not scanned again."""

    cards_seq: int = 0
    """All turns up to this entry are cards or summarized."""
    rounds_seq: int = 0
    """All rounds up to this entry were considered when rounds were pruned."""
    summary_seq: int = 0
    """The newest range summary."""
    summed_seq: int = 0
    """The last entry that the newest range summary covers."""
    notes: list[int] = []
    """The internal notes, oldest first."""
    said: list[int] = []
    """Messages and events that arrived during turns, oldest first."""
    outside: list[int] = []
    """Entries outside of turns, without the header; no turn index lists them."""
    records_calls: bool = False
    """Whether the log records requests; other logs do not tell what a model has seen."""
    unseen_seq: int = 0
    """The first result, notice or message that no completed request for a decision has contained; 0 if there is none.
    A request that failed or was interrupted does not count."""
    asked_seq: int = 0
    """The newest request for a decision if it has no reply; 0 otherwise."""
    arrived_seq: int = 0
    """The first result, notice or message after that request; 0 if there is none."""

    def _add_outside(self, entry: Entry, _: AnyBlock) -> None:
        if entry.turn_id == NO_TURN and entry.seq > 1:
            self.outside.append(entry.seq)

    def _add_pruning(self, entry: Entry, block: Pruned) -> None:
        self._add_outside(entry, block)
        self.cards_seq = max(self.cards_seq, block.through_seq)
        # A cut of one entry replaces only that entry; a round has several entries.
        long = (cut.last_seq for cut in block.cuts if cut.last_seq > cut.first_seq)
        self.rounds_seq = max([self.rounds_seq, *long])

    def _add_summary(self, entry: Entry, block: RangeSummary) -> None:
        self._add_outside(entry, block)
        self.summary_seq = entry.seq
        self.summed_seq = max(self.summed_seq, block.last_seq)

    def _add_note(self, entry: Entry, block: Note) -> None:
        self._add_outside(entry, block)
        self.notes.append(entry.seq)

    def _add_message(self, entry: Entry, block: Followup | Steer | ExternalEvent) -> None:
        self._add_shown(entry, block)
        self.said.append(entry.seq)

    def _add_call(self, entry: Entry, block: ModelCalled) -> None:
        self._add_outside(entry, block)
        if block.purpose == "decision":
            self.records_calls, self.asked_seq, self.arrived_seq = True, entry.seq, 0

    def _add_reply(self, entry: Entry, block: ModelAnswered) -> None:
        self._add_outside(entry, block)
        is_complete = block.purpose == "decision" and not block.error and not block.interrupted
        if is_complete and self.asked_seq:
            self.unseen_seq, self.asked_seq, self.arrived_seq = self.arrived_seq, 0, 0

    def _add_shown(self, entry: Entry, block: AnyBlock) -> None:
        self._add_outside(entry, block)
        if self.records_calls:
            self.unseen_seq = self.unseen_seq or entry.seq
            self.arrived_seq = self.arrived_seq or (entry.seq if self.asked_seq else 0)

    @property
    def done_seq(self) -> int:
        """All turns up to this entry are cards or summarized."""
        return max(self.cards_seq, self.summed_seq)

    folds: ClassVar[Folds] = {
        **for_all_blocks(_add_outside),
        **for_blocks(_SHOWN_TO_THE_MODEL, _add_shown),
        ModelCalled: _add_call,
        ModelAnswered: _add_reply,
        Pruned: _add_pruning,
        RangeSummary: _add_summary,
        Note: _add_note,
        Followup: _add_message,
        Steer: _add_message,
        ExternalEvent: _add_message,
    }
