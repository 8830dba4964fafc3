"""Opens the journal of a data folder for writing, for reading only, or as far as it is intact."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec

from timeloom.ports.store import StoreError
from timeloom.stores.blob_folder import BlobFolder
from timeloom.stores.disk import Disk
from timeloom.stores.head_folder import HeadFolder
from timeloom.stores.process_locks import ProcessLocks
from timeloom.stores.sqlite import migrations
from timeloom.stores.sqlite.connections import DATABASE_ERRORS, ConnectionPool, to_store_error
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.folder_lock import lock_folder
from timeloom.stores.sqlite.lost_files import (
    JOURNAL,
    LOG,
    check_journal,
    find_lost_log,
    is_journal_empty,
    lost_journal_error,
    read_mark,
    write_mark,
)
from timeloom.stores.sqlite.tables import append_delete, log_number
from timeloom.stores.sqlite.tables.import_rows import clear_imports
from timeloom.stores.sqlite.writer import PREALLOCATED_WAL_BYTES, Writer


@dataclass(slots=True)
class JournalFile:
    """The journal of a data folder. The folder counts as open until `close`."""

    data_dir: Path
    connections: ConnectionPool
    disk: Disk
    blobs: BlobFolder
    heads: HeadFolder
    process_locks: ProcessLocks
    at_end: Callable[[Database], None]
    """Called before the writer closes its connection."""

    writer: Writer | None = None
    """None if the journal is open for reading only, or damaged."""
    damage: str = ""
    """The damage that keeps the journal from being written; empty if there is none."""
    _lock_descriptor: int | None = None

    def open(self, create: bool) -> None:
        """Open the journal for writing, and create it if `create` is true and it does not exist.

        Raises `StoreError` if the folder lost its journal or a part of it, or cannot be used.
        """
        if not create:
            check_journal(self.data_dir)
        if is_journal_empty(self.data_dir) and self._held_conversations():
            raise lost_journal_error()
        try:
            self.disk.make_folder(self.data_dir)
            self.blobs.create_folders()
            # SQLite creates its other files with the mode of this one.
            self.disk.create(self.data_dir / JOURNAL)
            self._lock_descriptor, alone = lock_folder(self.data_dir)
        except OSError as error:
            name = self.data_dir.name
            raise StoreError("store_unwritable", f"the data folder {name!a} cannot be used: {error.strerror}") from None
        try:
            connection = self.connections.writer()
        except (apsw.CorruptError, apsw.NotADBError) as error:
            self._open_damaged(error)
            return
        except apsw.Error as error:
            raise to_store_error(error) from error
        self._start_writer(connection, alone)

    def open_read_only(self) -> None:
        """Open the journal without creating or changing a file."""
        check_journal(self.data_dir)
        try:
            self._check_schema()
        except (apsw.CorruptError, apsw.NotADBError) as error:
            self._open_damaged(error)
        except DATABASE_ERRORS as error:
            raise to_store_error(error) from error

    def find_lost_log(self, connection: Database) -> StoreError | None:
        """Return the error for a journal that lost its write-ahead log."""
        # Without a readable number, the damage of its page is reported.
        with contextlib.suppress(*DATABASE_ERRORS):
            return find_lost_log(self.data_dir, log_number.read(connection))
        return None

    def close(self) -> None:
        """Finish all accepted changes, and close all files."""
        self.connections.close()
        if self.writer:
            # Closed last, so that its connection checkpoints the write-ahead log.
            self.writer.close()
        self.process_locks.close()
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)

    def _held_conversations(self) -> bool:
        """Whether files beside the journal show that it had conversations."""
        return (
            self.blobs.has_payloads()
            or read_mark(self.data_dir) > 0
            or next(self.heads.conversations(), None) is not None
        )

    def _start_writer(self, connection: Database, alone: bool) -> None:
        try:
            # A journal whose only content was in its lost write-ahead log is a file without tables.
            if alone and not migrations.read_version(connection) and self._held_conversations():
                raise lost_journal_error()
            migrations.migrate(connection)
            if alone and (lost := find_lost_log(self.data_dir, log_number.read(connection))):
                raise lost
            self.disk.sync_folder(self.data_dir)
            if alone:
                self.blobs.clear_incoming()
                clear_imports(self.data_dir, connection)
                self.process_locks.remove_dead()
            if connection.execute("SELECT 1 FROM doomed LIMIT 1").fetchone():
                connection.execute("BEGIN IMMEDIATE")
                append_delete.remove_unused_payloads(connection, self.blobs)
                connection.execute("COMMIT")
        except (apsw.CorruptError, UnicodeDecodeError, msgspec.ValidationError) as error:
            connection.close()
            self._open_damaged(error)
        except apsw.Error as error:
            connection.close()
            raise to_store_error(error) from error
        except BaseException:
            connection.close()
            raise
        else:
            self.writer = Writer(connection, self.connections.lock_wait_ms, self._begin_log, self.at_end)

    def _open_damaged(self, error: Exception) -> None:
        """Open a damaged database for reading only; raises `StoreError` if not even its schema can be read."""
        self.connections.salvaging = True
        self.damage = f"journal.db is damaged ({error}); its intact parts can be read, and nothing is written"
        try:
            self._check_schema()
        except DATABASE_ERRORS as second:
            raise to_store_error(second) from second

    def _check_schema(self) -> None:
        """Read the schema; raises `StoreError` if the journal has none although the folder had conversations."""
        with self.connections.reader() as connection:
            if not migrations.read_version(connection) and self._held_conversations():
                raise lost_journal_error()
            connection.execute("SELECT n FROM conversations LIMIT 1").fetchall()

    def _begin_log(self, connection: Database) -> Callable[[], None]:
        """Number the new write-ahead log in its first commit, and return what to do after that commit.

        A log that is lost later takes its number with it, but not the number in the mark.
        """
        # Preallocation only improves speed; a full disk is reported by the commit.
        with contextlib.suppress(OSError):
            self.disk.preallocate(self.data_dir / LOG, PREALLOCATED_WAL_BYTES)
        number = log_number.increase(connection)

        def after() -> None:
            # Without the mark, a lost log is not noticed at the next start; the entries are stored all the same.
            with contextlib.suppress(OSError):
                write_mark(self.data_dir, number)

        return after
