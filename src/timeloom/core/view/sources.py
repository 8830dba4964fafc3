"""The view of the sources pool and of the entries that cite each source."""

import msgspec
from msgspec import field

from timeloom.core.blocks import Completion, ResultDigest, SourcesAdded
from timeloom.core.sources import SourcesPool
from timeloom.core.timeline import Entry


class SourcesView(msgspec.Struct):
    """The pool, and for each source id the entries that used the source."""

    pool: SourcesPool = field(default_factory=SourcesPool)
    used_at: dict[int, list[int]] = {}

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        match entry.block:
            case SourcesAdded(rows=rows):
                self.pool.add_rows(rows)
            case Completion(sources_used=sids):
                self._record_use(sids, entry.seq)
            case ResultDigest(digest=digest):
                self._record_use(digest.sources_used, entry.seq)
            case _:
                pass

    def _record_use(self, sids: tuple[int, ...], seq: int) -> None:
        for sid in dict.fromkeys(sids):
            self.used_at.setdefault(sid, []).append(seq)
