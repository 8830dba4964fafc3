"""Checks that a folder is a data folder and whether another store has it open."""

import fcntl
import os
from pathlib import Path

from timeloom.ports.store import StoreError
from timeloom.stores.disk import FILE_MODE


def check_journal(data_dir: Path) -> None:
    """Raise `StoreError` if the folder has no journal or an empty one."""
    journal = data_dir / "journal.db"
    if not journal.exists():
        raise StoreError("store_missing", "the folder has no journal.db, so it is not a data folder")
    if not journal.stat().st_size:
        raise StoreError("store_damaged", "journal.db is empty: its conversations are lost; payloads may still exist")


def lock_folder(data_dir: Path) -> tuple[int, bool]:
    """Mark the folder as open until the returned descriptor is closed.

    The second value is true if no other store had it open.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(data_dir / "open.lock", flags, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return descriptor, False
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor, True
