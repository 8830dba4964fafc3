"""The watchdog: looks again and again at what a program uses, and says when it goes over a limit."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import Ending, Limits, Used
from timeloom.sandbox.folders.disk_usage import MAX_DEPTH, Growth, measure
from timeloom.sandbox.processes.cgroup import Group
from timeloom.sandbox.processes.process_tree import Tree, TreeUse
from timeloom.sandbox.processes.unlinked_files import Held

LOOK_S: Final = 0.03
"""Between two looks. Longer lets a program overshoot: it fills some 100 MB of memory in this time; shorter costs
more processor than 1% for each program that runs."""

WALK_SHARE: Final = 4
"""After a look into the folders, none for so many times as long as it took, so that many files cost little."""

MAPS_S: Final = 0.1
"""Between two looks at what is mapped. Each takes as long as all else of a look together."""

INSIDE: Final = "/workspace"
"""Where programs have their folders that do not have them under their own names."""

_SOCKET_BUFFER: Final = Path("/proc/sys/net/core/wmem_default")
_SOCKET_BYTES: Final = 212_992


@dataclass(frozen=True, slots=True)
class Breach:
    """A limit that was passed: how the program ended by it, and what is said of it."""

    ending: Ending
    detail: str


@dataclass(frozen=True, slots=True)
class _Before:
    """What there was before a program began, which is not its doing."""

    growth: Growth = field(default_factory=Growth)
    cpu_s: float = 0.0
    group_cpu_s: float = 0.0
    sockets: int = 0
    closed: bool = False
    """Whether it tells nothing of a program that its processes cannot be looked into."""


@dataclass(slots=True)
class Watchdog:
    """Watches one execution: the processes of a tree, the folders they write to, and file systems in memory."""

    limits: Limits
    tree: Tree
    folders: Sequence[Path]
    in_memory: Sequence[int] = ()
    """Descriptors of file systems that live in memory and are the program's alone."""

    group: Group | None = None
    """The control group that the kernel keeps to its limits, where there is one."""

    peak_bytes: int = 0
    """The most memory that was seen, without files that the kernel keeps in memory while there is room."""

    _before: _Before = field(default_factory=_Before)
    _cpu_s: float = 0.0
    _walk_at_s: float = 0.0
    _maps_at_s: float = 0.0

    def begin(self) -> None:
        """Takes what is used now as what the program has not used itself: an interpreter, and its inputs."""
        use = self.tree.use()
        self._before = _Before(
            growth=measure(self.folders, sys.maxsize),
            cpu_s=use.cpu_s,
            group_cpu_s=(self.group.cpu_s() if self.group else None) or 0.0,
            sockets=0 if self._is_counted else self.tree.sockets(),
            # Root can look into everybody's; where it cannot, that is not the program's doing.
            closed=os.geteuid() == 0 or self.tree.held(0, ()).closed,
        )
        self._of_memory(use)

    def used(self, wall_s: float) -> Used:
        """What the program has used, as far as it was seen."""
        self._count_cpu(None)
        return Used(wall_ms=round(wall_s * 1000), cpu_ms=round(self._cpu_s * 1000), peak_bytes=self.peak_bytes)

    async def breach(self) -> Breach:
        """Waits until a limit is passed; never returns where none is."""
        while True:
            await asyncio.sleep(LOOK_S)
            if found := await asyncio.to_thread(self.look):
                return found

    def look(self) -> Breach | None:
        """The limit that is passed at this moment."""
        use = self.tree.use()
        self._count_cpu(use)
        return (
            self.of_kernel()
            or self._of_cpu()
            or self._of_memory(use)
            or self._of_files_in_memory()
            or self._of_folders()
        )

    def of_kernel(self) -> Breach | None:
        """The limit of memory, where the kernel has ended a process for it; also when all of them are gone."""
        if self.group is None or not self.group.out_of_memory():
            return None
        self.peak_bytes = max(self.peak_bytes, self.limits.memory_bytes)
        return Breach("memory", f"needed more memory than the {_mib(self.limits.memory_bytes)} it may have")

    @property
    def _is_counted(self) -> bool:
        """Whether there is a group that counts all of its memory."""
        return self.group is not None and self.group.counts_memory

    def _count_cpu(self, use: TreeUse | None) -> None:
        """Takes the larger of what was seen of the processes, and of what their group has counted."""
        counted = self.group.cpu_s() if self.group else None
        seen_s = use.cpu_s - self._before.cpu_s if use else 0.0
        self._cpu_s = max(self._cpu_s, seen_s, (counted or 0.0) - self._before.group_cpu_s)

    def _of_cpu(self) -> Breach | None:
        if self._cpu_s <= self.limits.cpu_s:
            return None
        return Breach("cpu", f"used {self._cpu_s:.1f} s of processor time, of {self.limits.cpu_s:g} s")

    def _of_memory(self, use: TreeUse) -> Breach | None:
        memory = self._memory_bytes(use)
        self.peak_bytes = max(self.peak_bytes, memory)
        if memory <= self.limits.memory_bytes:
            return None
        return Breach("memory", f"had {_mib(memory)} of memory, of {_mib(self.limits.memory_bytes)}")

    def _memory_bytes(self, use: TreeUse) -> int:
        """What it has of memory; where no group counts that, sockets count with as much as they can hold."""
        unmapped = sum(_used_bytes(each) for each in self.in_memory)
        if not self._is_counted:
            unmapped += max(0, self.tree.sockets() - self._before.sockets) * _socket_bytes()
        if use.rss_bytes + unmapped <= self.limits.memory_bytes:
            return use.rss_bytes + unmapped
        # Forks share most of their pages; whether it is too much is seen when each is counted once.
        counted = self.group.memory_bytes() if self.group else None
        return self.tree.shared_bytes() + unmapped if counted is None else counted

    def _of_files_in_memory(self) -> Breach | None:
        files = sum(_used_files(each) for each in self.in_memory)
        return self._too_many(files) if files > self.limits.growth_files else None

    def _of_folders(self) -> Breach | None:
        started = time.monotonic()
        if started < self._walk_at_s:
            return None
        before = self._before.growth
        growth = measure(self.folders, before.files + self.limits.growth_files)
        held = self._held(started)
        self._walk_at_s = time.monotonic() + WALK_SHARE * (time.monotonic() - started)
        if growth.too_deep:
            return Breach("growth", f"nested its folders deeper than {MAX_DEPTH}")
        if growth.closed:
            return Breach("growth", "closed one of its folders to those who count what is in it")
        if held.too_many or (held.closed and not self._before.closed):
            return Breach("growth", "kept those who count from seeing which files it holds")
        if growth.files - before.files > self.limits.growth_files:
            return self._too_many(growth.files - before.files)
        # A file of which nobody tells how large it is counts as large as it can be.
        grown = growth.bytes - before.bytes + held.bytes + held.unknown * self.limits.file_bytes
        if grown <= self.limits.growth_bytes:
            return None
        return Breach("growth", f"wrote {_mib(grown)} into its folders, of {_mib(self.limits.growth_bytes)}")

    def _held(self, now_s: float) -> Held:
        """What it holds and has removed, which no walk finds."""
        device = next((folder.stat().st_dev for folder in self.folders if folder.is_dir()), 0)
        if now_s < self._maps_at_s:
            return self.tree.held(device, ())
        self._maps_at_s = now_s + MAPS_S
        return self.tree.held(device, (INSIDE, *(os.path.realpath(folder) for folder in self.folders)))

    def _too_many(self, files: int) -> Breach:
        return Breach("growth", f"made {files} files or more, of {self.limits.growth_files}")


@cache
def _socket_bytes() -> int:
    """What a socket can hold that nobody reads from: its buffer, and the last piece, which may be as large again."""
    try:
        return 2 * int(_SOCKET_BUFFER.read_text(encoding="ascii"))
    except OSError:
        return 2 * _SOCKET_BYTES


def _used_bytes(descriptor: int) -> int:
    found = os.fstatvfs(descriptor)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _used_files(descriptor: int) -> int:
    found = os.fstatvfs(descriptor)
    return found.f_files - found.f_ffree


def _mib(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"
