"""Forgetting: how far turns were pruned and summed up, and what must outlive a summary."""

import msgspec

from timeloom.core.blocks import ExternalEvent, Followup, Note, Pruned, RangeSummary, Steer
from timeloom.core.timeline import NO_TURN, Entry


class ForgettingView(msgspec.Struct):
    """The marks from which the next act of forgetting goes on, so that nobody walks what was forgotten before."""

    cards_seq: int = 0
    """All turns up to here stand as cards or are summed up."""
    rounds_seq: int = 0
    """All rounds up to here were looked at when rounds were pruned."""
    summary_seq: int = 0
    """The newest summary of a range."""
    summed_seq: int = 0
    """The last entry that it covers."""
    notes: list[int] = []
    """The internal notes, oldest first."""
    said: list[int] = []
    """What reached turns from outside while they ran, oldest first."""
    outside: list[int] = []
    """Entries that belong to no turn, without the header: no index of a turn lists them."""

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        if entry.turn_id == NO_TURN and entry.seq > 1:
            self.outside.append(entry.seq)
        match entry.block:
            case Pruned(cuts=cuts, through_seq=through):
                self.cards_seq = max(self.cards_seq, through)
                # A cut of one entry stands for that entry alone; a round has more.
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
        """All turns up to here are cards or summed up."""
        return max(self.cards_seq, self.summed_seq)
