"""The embedded store: an SQLite journal with a folder of payloads beside it.

Reading order: `store`, `writer`, `connections`, `database`, `tables/`, `migrations`, `ledger`, `poller`, `folder_lock`,
`verify`, `salvage`.
"""

from timeloom.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
