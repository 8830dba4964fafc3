"""Opens connections to the database of the journal and explains its errors."""

import contextlib
import queue
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

import apsw
import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.store import StoreError
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.lost_files import SALVAGE_HINT

_CACHE_KIB: Final = 4096
_RETRY_S: Final = 0.005
_WAL_LIMIT_BYTES: Final = 8 << 20
"""Size to which a longer write-ahead log is truncated when it restarts.

A smaller value makes the file system allocate the same space repeatedly."""


class ConnectionPool:
    """Opens connections to one database and keeps idle ones for the next reader."""

    def __init__(self, path: Path, lock_wait_s: float, vfs: str, *, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self.lock_wait_ms = int(lock_wait_s * 1000)
        self._vfs = vfs
        self._idle: queue.SimpleQueue[Database] = queue.SimpleQueue()
        self.salvaging = False
        """Set when the database is damaged as a whole. Readers then read the intact parts, and nothing is written."""

    def writer(self) -> Database:
        """Return a connection that syncs every commit. Its owner runs the checkpoints and closes it."""
        connection = self._open()
        try:
            _turn_on_wal(connection, self.lock_wait_ms)
            _pragma(connection, "synchronous = FULL")
            _pragma(connection, "fullfsync = ON")
            _pragma(connection, "wal_autocheckpoint = 0")
            _pragma(connection, f"journal_size_limit = {_WAL_LIMIT_BYTES}")
        except apsw.Error:
            connection.close()
            raise
        return connection

    @contextlib.contextmanager
    def reader(self) -> Generator[Database]:
        """Yield a read-only connection in one transaction, so that a request sees one state of the store."""
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = self.open_reader()
        try:
            connection.execute("BEGIN")
            yield connection
        except BaseException:
            # Errors are rare, so the connection is dropped without checking its state.
            connection.close(True)
            raise
        try:
            connection.execute("COMMIT")
        except apsw.Error:
            # The data was read correctly. An earlier failure has already been raised to the caller.
            connection.close(True)
        else:
            self._idle.put(connection)

    def open_reader(self) -> Database:
        """Return a read-only connection. Its owner closes it."""
        connection = self._open()
        _pragma(connection, "query_only = ON")
        return connection

    def close(self) -> None:
        """Close the idle connections."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def _open(self) -> Database:
        if self._read_only:
            connection = self._open_read_only()
        else:
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
            connection = cast(Database, apsw.Connection(str(self._path), flags=flags, vfs=self._vfs or None))
        connection.set_busy_timeout(self.lock_wait_ms)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        if self.salvaging:
            # SQLite rejects a file that is shorter than its header says, unless the schema is writable for a repair.
            connection.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        else:
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        _pragma(connection, f"cache_size = -{_CACHE_KIB}")
        # Otherwise savepoints spill into temporary files outside the data folder.
        _pragma(connection, "temp_store = MEMORY")
        return connection

    def _open_read_only(self) -> Database:
        """Return a connection that creates no file beside the database.

        Without a write-ahead log the database is complete and cannot change. With one, SQLite shares the log's index
        in a file. If it cannot, this connection keeps the index in memory; SQLite then wants exclusive access, for
        which a VFS without locks does not ask the file system.
        """
        log = self._path.with_name(f"{self._path.name}-wal")
        if not log.exists() or not log.stat().st_size:
            return self._connect_read_only("?immutable=1")
        connection = self._connect_read_only("")
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError):
            connection.close()
        else:
            return connection
        connection = self._connect_read_only("", vfs="unix-none")
        _pragma(connection, "locking_mode = EXCLUSIVE")
        return connection

    def _connect_read_only(self, options: str, vfs: str | None = None) -> Database:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
        return cast(Database, apsw.Connection(f"file:{quote(str(self._path))}{options}", flags=flags, vfs=vfs))


DATABASE_ERRORS: Final = (apsw.Error, UnicodeDecodeError, msgspec.ValidationError)
"""Errors that a damaged or busy database can raise: SQLite errors, invalid UTF-8 and values of wrong types."""


def to_store_error(error: Exception, conversation: ConversationId | None = None) -> StoreError:
    """Return the `StoreError` for a database error on that conversation, or on the store as a whole."""
    subject = f"conversation {conversation}" if conversation else "the journal"
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreError("store_locked", f"{subject}: another process holds the store; try again")
        case apsw.FullError() | apsw.IOError() | apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return StoreError("store_unwritable", f"{subject}: disk error ({error})")
        case _:
            hint = "other conversations stay readable" if conversation else f"run `timeloom verify`; {SALVAGE_HINT}"
            return StoreError("store_damaged", f"{subject} cannot be read from journal.db ({error}); {hint}")


def _turn_on_wal(connection: Database, lock_wait_ms: int) -> None:
    """Switch to WAL mode with retries: of several processes at once only one can, and SQLite lets none wait."""
    deadline = time.monotonic() + lock_wait_ms / 1000
    while True:
        try:
            _pragma(connection, "journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def _pragma(connection: Database, assignment: str) -> None:
    connection.execute(f"PRAGMA {assignment}").fetchall()
