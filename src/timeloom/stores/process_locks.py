"""Detects which processes that have a data folder open are alive, by a lock file that each one holds."""

import contextlib
import fcntl
import os
import re
import socket
import sys
import threading
import weakref
from pathlib import Path
from typing import Final

import msgspec

from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.ids import Ids
from timeloom.stores.disk import FILE_MODE, FOLDER_MODE

_NAME: Final = re.compile(r"[0-9a-f]{16}")
_MAX_BYTES: Final = 4096


class ProcessInfo(msgspec.Struct, frozen=True):
    """The content of a lock file: the process that holds it."""

    pid: int
    host: str
    program: str
    opened: str


class ProcessLocks:
    """The lock file of this store, and checks on the lock files of others.

    A holder is one open store; its name is that of its lock file. The system releases the lock of a file when its
    process ends, however it ends. So a holder whose file can be locked or is gone is dead, and its leases are void.
    """

    def __init__(self, folder: Path, clock: Clock, ids: Ids) -> None:
        self._folder = folder
        self._clock = clock
        self._ids = ids
        self._mutex = threading.Lock()
        self._own_name = ""
        self._descriptor: int | None = None

    def claim_name(self) -> str:
        """Return the name of this holder. The first call creates its lock file."""
        with self._mutex:
            while not self._own_name:
                self._own_name = self._create_lock_file()
            return self._own_name

    def is_own(self, holder: str) -> bool:
        """Whether that is the name of this holder."""
        return holder != "" and holder == self._own_name

    def is_alive(self, holder: str) -> bool:
        """Whether that holder may still be running. The lock file of a dead holder is removed."""
        if self.is_own(holder):
            return True
        if not _NAME.fullmatch(holder):
            return False
        try:
            return self._is_locked(self._lock_path(holder))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            # The file exists, but this process may not read it.
            return True

    def describe(self, holder: str) -> str:
        """Return a description of that holder's process, for people."""
        try:
            with self._lock_path(holder).open("rb") as file:
                info = msgspec.json.decode(file.read(_MAX_BYTES), type=ProcessInfo)
        except (OSError, ValueError):
            return "an unknown process"
        return f"process {info.pid} on {info.host} ({info.program}, open since {info.opened})"

    def remove_dead(self) -> None:
        """Remove the lock files of dead holders."""
        with contextlib.suppress(OSError):
            for file in self._folder.glob("*.lock"):
                self.is_alive(file.stem)

    def close(self) -> None:
        """Remove and release the lock file of this holder, which ends its leases."""
        with self._mutex:
            if self._descriptor is not None:
                with contextlib.suppress(OSError):
                    self._lock_path(self._own_name).unlink()
                os.close(self._descriptor)
                self._descriptor = None

    def close_in_child(self) -> None:
        """Close the lock file in a forked child; otherwise the lock would outlive the parent process."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _create_lock_file(self) -> str:
        """Create and lock a new file and return its name.

        Empty if another process took the file for a dead holder's before it was locked, or if the name is in use.
        """
        name = f"{self._ids.bits() % 16**16:016x}"
        file = self._lock_path(name)
        self._folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        except FileExistsError:
            return ""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.stat().st_ino != os.fstat(descriptor).st_ino:
                raise FileNotFoundError
        except (BlockingIOError, FileNotFoundError):
            os.close(descriptor)
            return ""
        os.write(descriptor, msgspec.json.encode(self._process_info()))
        self._descriptor = descriptor
        _OPEN_LOCKS.add(self)
        return name

    def _process_info(self) -> ProcessInfo:
        started = Path(sys.argv[0] if sys.argv else "")
        program = started.parent.name if started.name == "__main__.py" else started.name
        return ProcessInfo(os.getpid(), socket.gethostname(), program or "python", timestamp(self._clock.epoch_us()))

    def _is_locked(self, file: Path) -> bool:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            # A shared lock, so that two processes that check at once do not take each other for the holder.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            file.unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)

    def _lock_path(self, holder: str) -> Path:
        return self._folder / f"{holder}.lock"


_OPEN_LOCKS: Final[weakref.WeakSet[ProcessLocks]] = weakref.WeakSet()


def _close_all_in_child() -> None:
    for each in list(_OPEN_LOCKS):
        each.close_in_child()


os.register_at_fork(after_in_child=_close_all_in_child)
