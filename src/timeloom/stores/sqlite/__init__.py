"""The embedded store: an SQLite journal with a folder of payloads beside it."""

from timeloom.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
