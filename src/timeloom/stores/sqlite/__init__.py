"""The embedded store: an SQLite journal with a folder of payloads beside it.

Reading order: `store`, `journal_file`, `writer`, `connections`, `database`, `tables/`, `migrations`, `ledger`,
`records`, `poller`, `folder_lock`, `lost_files`, `verify`, `salvage`, `backup`.
"""

from timeloom.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
