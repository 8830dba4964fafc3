"""Marks a data folder as open, and tells whether another store has it open."""

import fcntl
import os
from pathlib import Path

from timeloom.stores.disk import FILE_MODE


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
