"""Connections to the journal's database: how they are opened, and what its errors mean."""

import contextlib
import queue
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final, cast

import apsw
import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.store import StoreError
from timeloom.stores.sqlite.database import Database

_CACHE_KIB: Final = 4096
_RETRY_S: Final = 0.005
_WAL_LIMIT_BYTES: Final = 8 << 20
"""A longer log file is cut to this size when it starts anew; smaller makes the file system allocate again and again."""


class Connections:
    """Opens connections to one database and keeps idle ones for the next reader."""

    def __init__(self, path: Path, lock_wait_s: float, vfs: str) -> None:
        self._path = path
        self.lock_wait_ms = int(lock_wait_s * 1000)
        self._vfs = vfs
        self._idle: queue.SimpleQueue[Database] = queue.SimpleQueue()
        self.salvaging = False
        """Set when the database is damaged as a whole: readers then take what they can get, and nobody writes."""

    def writer(self) -> Database:
        """A connection that syncs every commit, and leaves checkpoints to its owner."""
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
        """A connection that cannot write and sees one moment of the store, for the time of one request."""
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = self.open_reader()
        try:
            connection.execute("BEGIN")
            yield connection
        except BaseException:
            # Rare enough not to look what state it is in.
            connection.close(True)
            raise
        try:
            connection.execute("COMMIT")
        except apsw.Error:
            # What was read is good; what failed before that is on its way to whoever asked.
            connection.close(True)
        else:
            self._idle.put(connection)

    def open_reader(self) -> Database:
        """A connection that cannot write, for its owner to close."""
        connection = self._open()
        _pragma(connection, "query_only = ON")
        return connection

    def close(self) -> None:
        """Closes the idle ones."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    def _open(self) -> Database:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
        connection = cast(Database, apsw.Connection(str(self._path), flags=flags, vfs=self._vfs or None))
        connection.set_busy_timeout(self.lock_wait_ms)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        if self.salvaging:
            # SQLite refuses a file that is shorter than its header says, unless it believes that it is being mended.
            connection.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        else:
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        _pragma(connection, f"cache_size = -{_CACHE_KIB}")
        # Savepoints spill into temporary files otherwise, outside of the folder.
        _pragma(connection, "temp_store = MEMORY")
        return connection


DATABASE_ERRORS: Final = (apsw.Error, UnicodeDecodeError, msgspec.ValidationError)
"""What a damaged or busy database can raise: its own errors, text that is no text, values of another type."""


def explained(error: Exception, conversation: ConversationId | None = None) -> StoreError:
    """What a database error means to somebody who asked for that conversation, or for the store as a whole."""
    whose = f"conversation {conversation}" if conversation else "the journal"
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreError("store_locked", f"{whose}: another process holds the store; try again")
        case apsw.FullError() | apsw.IOError() | apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return StoreError("store_unwritable", f"{whose}: the disk refused ({error})")
        case _:
            hint = "other conversations stay readable" if conversation else "run `timeloom verify`"
            return StoreError("store_damaged", f"{whose} cannot be read from journal.db ({error}); {hint}")


def _turn_on_wal(connection: Database, lock_wait_ms: int) -> None:
    """Of several who open a new database at once only one can do it, and SQLite does not let the others wait."""
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
