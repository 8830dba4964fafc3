"""Notices that the journal of a data folder, or its write-ahead log, is missing or was replaced."""

import os
from pathlib import Path
from typing import Final

from timeloom.ports.store import StoreError
from timeloom.stores.disk import FILE_MODE

JOURNAL: Final = "journal.db"
LOG: Final = "journal.db-wal"

MARK: Final = "wal.mark"
"""Holds the number of the newest write-ahead log that has a commit; journal.db holds a number too."""

SALVAGE_HINT: Final = "`timeloom verify --salvage OUT` writes what remains to a new folder"


def check_journal(data_dir: Path) -> None:
    """Raise `StoreError` if the folder has no journal or an empty one."""
    journal = data_dir / JOURNAL
    if not journal.exists():
        raise StoreError("store_missing", "the folder has no journal.db, so it is not a data folder")
    if not journal.stat().st_size:
        raise StoreError(
            "store_damaged", f"journal.db is empty; put it back from a backup, with journal.db-wal; {SALVAGE_HINT}"
        )


def is_journal_empty(data_dir: Path) -> bool:
    """Whether journal.db is missing or has no content."""
    try:
        return not (data_dir / JOURNAL).stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return True


def lost_journal_error() -> StoreError:
    """Return the error for a folder that held conversations and whose journal has none."""
    return StoreError(
        "store_damaged",
        "journal.db is missing or empty, but the folder has payloads, heads or wal.mark of stored conversations; put "
        f"journal.db and journal.db-wal back from a backup, or choose another data folder; {SALVAGE_HINT}",
    )


def find_lost_log(data_dir: Path, log_number: int) -> StoreError | None:
    """Return the error for a journal without its write-ahead log; `log_number` is the number in the journal."""
    if log_number >= read_mark(data_dir):
        return None
    return StoreError(
        "store_damaged",
        "journal.db is older than its last commit: journal.db-wal was removed, or journal.db was replaced by an older "
        f"copy; put both files back. If they are lost, {SALVAGE_HINT}; to continue here without them, remove wal.mark",
    )


def read_mark(data_dir: Path) -> int:
    """Return the number in the mark; 0 if it is missing or damaged."""
    try:
        text = (data_dir / MARK).read_bytes()[:20].strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0


def write_mark(data_dir: Path, log_number: int) -> None:
    """Write the mark, without a sync. Call it after the commit that stored the number in the journal."""
    descriptor = os.open(data_dir / MARK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        os.pwrite(descriptor, b"%019d\n" % log_number, 0)
    finally:
        os.close(descriptor)
