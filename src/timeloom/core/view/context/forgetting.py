"""The view of pruning and compaction so far, and of the entries that every summary keeps."""

import msgspec

from timeloom.core.blocks import ExternalEvent, Followup, Note, Pruned, RangeSummary, Steer
from timeloom.core.timeline import NO_TURN, Entry


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

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        if entry.turn_id == NO_TURN and entry.seq > 1:
            self.outside.append(entry.seq)
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

    @property
    def done_seq(self) -> int:
        """All turns up to this entry are cards or summarized."""
        return max(self.cards_seq, self.summed_seq)
