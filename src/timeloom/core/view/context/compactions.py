"""The view of requested compactions: those that are not carried out yet, and the outcome of the others."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks import CompactionEnded, CompactionRequested
from timeloom.core.ids import MessageId
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds


class CompactionRequest(msgspec.Struct, frozen=True, gc=False):
    """A requested compaction: its entry, its id, the rounds to keep (0 is the default) and the focus."""

    seq: int
    message_id: MessageId
    keep: int = 0
    focus: str = ""


class CompactionsView(BlockView, msgspec.Struct):
    """Requests of compactions by their id; the first request with an id counts, so that sending it twice is safe."""

    pending: list[CompactionRequest] = []
    """The requests without an outcome, oldest first."""
    requests: dict[MessageId, int] = {}
    """Each request with its entry, oldest first."""
    outcomes: dict[MessageId, int] = {}
    """Each request that was carried out, with the entry of its outcome."""

    def _add_request(self, entry: Entry, block: CompactionRequested) -> None:
        if block.message_id not in self.requests:
            self.requests[block.message_id] = entry.seq
            self.pending.append(CompactionRequest(entry.seq, block.message_id, block.keep, block.text))

    def _add_outcome(self, entry: Entry, block: CompactionEnded) -> None:
        if block.message_id in self.requests:
            self.outcomes.setdefault(block.message_id, entry.seq)
            self.pending = [one for one in self.pending if one.message_id != block.message_id]

    @property
    def next_request(self) -> CompactionRequest | None:
        """The oldest request that is not carried out yet."""
        return self.pending[0] if self.pending else None

    folds: ClassVar[Folds] = {CompactionRequested: _add_request, CompactionEnded: _add_outcome}
