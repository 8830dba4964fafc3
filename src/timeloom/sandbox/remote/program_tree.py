"""The program's tree of processes, as a supervisor sees it that is root without the right to look into others.

A container's root may not read what the kernel tells of another user's memory and open files; that user may. So it is
read with the program's identity, which a thread can take for a moment for its access to files alone.
"""

import ctypes
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from timeloom.sandbox.processes.process_tree import Tree
from timeloom.sandbox.processes.unlinked_files import Held

_library: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class ProgramTree(Tree):
    """The processes below a keeper; `uid` is whose they are."""

    uid: int = 0

    def shared_bytes(self) -> int:
        """The memory they have, each page counted once; all of a process's where the kernel does not tell its share."""
        with _seen_as(self.uid):
            return Tree.shared_bytes(self)

    def held(self, device: int, folders: Sequence[str]) -> Held:
        """What they hold on that device of files that have no name; `folders` is where they can write."""
        with _seen_as(self.uid):
            return Tree.held(self, device, folders)


@contextmanager
def _seen_as(uid: int) -> Generator[None]:
    """This thread reaches files as that user; the group first, since only root may change it."""
    _library.setfsgid(uid)
    _library.setfsuid(uid)
    try:
        yield
    finally:
        _library.setfsuid(os.geteuid())
        _library.setfsgid(os.getegid())
