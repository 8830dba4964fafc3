"""Measures the program's process tree for a supervisor that is root but may not inspect other users.

The root user of a container may not read memory and open files of another user's processes; that user may. Therefore
the supervisor's thread switches its file system identity to the program's user while it reads.
"""

import ctypes
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from timeloom.sandbox.processes.process_tree import ProcessTree
from timeloom.sandbox.processes.unlinked_files import UnlinkedFiles

_library: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class ProgramTree(ProcessTree):
    """The processes below an init process; `uid` is their user."""

    uid: int = 0

    def pss_bytes(self) -> int:
        """Return the memory with each page counted once; a process without PSS counts with all its memory."""
        with _as_user(self.uid):
            return ProcessTree.pss_bytes(self)

    def find_unlinked(self, device: int, folders: Sequence[str]) -> UnlinkedFiles:
        """Return the unlinked files they hold on that device; `folders` are their writable folders."""
        with _as_user(self.uid):
            return ProcessTree.find_unlinked(self, device, folders)


@contextmanager
def _as_user(uid: int) -> Generator[None]:
    """Access files as that user in this thread; set the group first, since only root may change it."""
    _library.setfsgid(uid)
    _library.setfsuid(uid)
    try:
        yield
    finally:
        _library.setfsuid(os.geteuid())
        _library.setfsgid(os.getegid())
