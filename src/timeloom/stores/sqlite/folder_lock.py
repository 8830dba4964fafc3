"""Presence: whether a folder is one of ours, and whether anybody else has it open."""

import fcntl
import os
from pathlib import Path

from timeloom.ports.store import StoreError
from timeloom.stores.disk import FILE_MODE


def need_journal(data_dir: Path) -> None:
    """Refuses a folder in which a journal was expected and is not."""
    journal = data_dir / "journal.db"
    if not journal.exists():
        raise StoreError("store_missing", "the folder has no journal.db, so it is not a data folder")
    if not journal.stat().st_size:
        raise StoreError("store_damaged", "journal.db is empty: what it held is lost, and payloads may still be there")


def enter(data_dir: Path) -> tuple[int, bool]:
    """Marks the folder as open for as long as the descriptor is; and whether it is open nowhere else."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    presence = os.open(data_dir / "open.lock", flags, FILE_MODE)
    try:
        fcntl.flock(presence, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(presence, fcntl.LOCK_SH)
        return presence, False
    fcntl.flock(presence, fcntl.LOCK_SH)
    return presence, True
