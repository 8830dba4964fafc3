"""The view of requested compactions: those that are not carried out yet, and the outcome of the others."""

import msgspec

from timeloom.core.blocks import CompactionEnded, CompactionRequested
from timeloom.core.ids import MessageId
from timeloom.core.timeline import Entry


class CompactionRequest(msgspec.Struct, frozen=True, gc=False):
    """A requested compaction: its entry, its id, the rounds to keep (0 is the default) and the focus."""

    seq: int
    message_id: MessageId
    keep: int = 0
    focus: str = ""


class CompactionsView(msgspec.Struct):
    """Requests of compactions by their id; the first request with an id counts, so that sending it twice is safe."""

    pending: list[CompactionRequest] = []
    """The requests without an outcome, oldest first."""
    requests: dict[MessageId, int] = {}
    """Each request with its entry, oldest first."""
    outcomes: dict[MessageId, int] = {}
    """Each request that was carried out, with the entry of its outcome."""

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        match entry.block:
            case CompactionRequested(message_id=message, keep=keep, text=focus) if message not in self.requests:
                self.requests[message] = entry.seq
                self.pending.append(CompactionRequest(entry.seq, message, keep, focus))
            case CompactionEnded(message_id=message) if message in self.requests:
                self.outcomes.setdefault(message, entry.seq)
                self.pending = [one for one in self.pending if one.message_id != message]
            case _:
                pass

    @property
    def next_request(self) -> CompactionRequest | None:
        """The oldest request that is not carried out yet."""
        return self.pending[0] if self.pending else None
