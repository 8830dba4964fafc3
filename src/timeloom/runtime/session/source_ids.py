"""Reserves ids of sources for running calls, before an entry holds them."""

import threading

from timeloom.core.codes import CodedError
from timeloom.core.paths import MAX_SID
from timeloom.core.sources import NewSource, SourcesPool
from timeloom.core.sources.pool import merge_key
from timeloom.core.sources.rows import prepare_for_pool


class SourceIds:
    """The reserved ids of one conversation. All further rows begin after them; calls reserve in any thread."""

    def __init__(self) -> None:
        self._by_key: dict[str, int] = {}
        self._lock = threading.Lock()
        self.first_free = 1

    def reserve(self, source: NewSource, pool: SourcesPool) -> int:
        """Return the id of the source: that of its row, or a new one. Equal sources get the same id."""
        key = merge_key(prepare_for_pool(source))
        with self._lock:
            if sid := pool.sid_by_key.get(key) or self._by_key.get(key):
                return sid
            sid = max(self.first_free, pool.next_sid)
            if sid > MAX_SID:
                raise CodedError("source_malformed", f"a conversation has at most {MAX_SID} sources")
            self._by_key[key], self.first_free = sid, sid + 1
            return sid
