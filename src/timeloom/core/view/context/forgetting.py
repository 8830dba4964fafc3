"""The view of pruning and compaction so far, and of the entries that every summary keeps."""

from typing import Final

import msgspec

from timeloom.core.blocks import (
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


class ForgettingView(msgspec.Struct):
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

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        if entry.turn_id == NO_TURN and entry.seq > 1:
            self.outside.append(entry.seq)
        self._add_unseen(entry)
        match entry.block:
            case Pruned(cuts=cuts, through_seq=through):
                self.cards_seq = max(self.cards_seq, through)
                # A cut of one entry replaces only that entry; a round has several entries.
                long = (cut.last_seq for cut in cuts if cut.last_seq > cut.first_seq)
                self.rounds_seq = max([self.rounds_seq, *long])
            case RangeSummary(last_seq=last):
                self.summary_seq = entry.seq
                self.summed_seq = max(self.summed_seq, last)
            case Note():
                self.notes.append(entry.seq)
            case Followup() | Steer() | ExternalEvent():
                self.said.append(entry.seq)
            case _:
                pass

    def _add_unseen(self, entry: Entry) -> None:
        match entry.block:
            case ModelCalled(purpose="decision"):
                self.records_calls, self.asked_seq, self.arrived_seq = True, entry.seq, 0
            case ModelAnswered(purpose="decision", error="", interrupted=False) if self.asked_seq:
                self.unseen_seq, self.asked_seq, self.arrived_seq = self.arrived_seq, 0, 0
            case block if self.records_calls and isinstance(block, _SHOWN_TO_THE_MODEL):
                self.unseen_seq = self.unseen_seq or entry.seq
                self.arrived_seq = self.arrived_seq or (entry.seq if self.asked_seq else 0)
            case _:
                pass

    @property
    def done_seq(self) -> int:
        """All turns up to this entry are cards or summarized."""
        return max(self.cards_seq, self.summed_seq)
