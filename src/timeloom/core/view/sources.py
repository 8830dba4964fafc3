"""The view of the sources pool and of the entries that cite each source."""

from typing import ClassVar

import msgspec
from msgspec import field

from timeloom.core.blocks import Completion, ResultDigest, SourcesAdded
from timeloom.core.sources import SourcesPool
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds


class SourcesView(BlockView, msgspec.Struct):
    """The pool, and for each source id the entries that used the source."""

    pool: SourcesPool = field(default_factory=SourcesPool)
    used_at: dict[int, list[int]] = {}

    def _add_rows(self, _: Entry, block: SourcesAdded) -> None:
        self.pool.add_rows(block.rows)

    def _add_completion(self, entry: Entry, block: Completion) -> None:
        self._record_use(block.sources_used, entry.seq)

    def _add_digest(self, entry: Entry, block: ResultDigest) -> None:
        if block.digest.sources_used:
            self._record_use(block.digest.sources_used, entry.seq)

    def _record_use(self, sids: tuple[int, ...], seq: int) -> None:
        for sid in dict.fromkeys(sids):
            self.used_at.setdefault(sid, []).append(seq)

    folds: ClassVar[Folds] = {SourcesAdded: _add_rows, Completion: _add_completion, ResultDigest: _add_digest}
