"""Polls a program's resource usage and reports the first limit that it exceeds."""

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
"""Seconds between two checks. A longer interval lets a program overshoot: it fills some 100 MB of memory in this time.
A shorter one costs more than 1% of a processor for each running program."""

WALK_SHARE: Final = 4
"""After a walk through the folders, the next one waits this many times as long as it took, so that many files cost
little."""

MAPS_S: Final = 0.1
"""Seconds between two checks of the mapped files. Such a check takes as long as the rest of all checks together."""

INSIDE: Final = "/workspace"
"""Path of the folders inside a sandbox that does not keep their host paths."""

_SOCKET_BUFFER: Final = Path("/proc/sys/net/core/wmem_default")
_SOCKET_BYTES: Final = 212_992


@dataclass(frozen=True, slots=True)
class Breach:
    """An exceeded limit: the ending that it causes, and a text with the numbers."""

    ending: Ending
    detail: str


@dataclass(frozen=True, slots=True)
class _Before:
    """The usage before the program started, which is not charged to it."""

    growth: Growth = field(default_factory=Growth)
    cpu_s: float = 0.0
    group_cpu_s: float = 0.0
    sockets: int = 0
    closed: bool = False
    """Whether unreadable processes are normal here, and therefore no sign of evasion."""


@dataclass(slots=True)
class Watchdog:
    """Watches one execution: its process tree, the folders it writes to, and its in-memory file systems."""

    limits: Limits
    tree: Tree
    folders: Sequence[Path]
    in_memory: Sequence[int] = ()
    """Descriptors of in-memory file systems that belong to this program alone."""

    group: Group | None = None
    """The control group in which the kernel enforces the limits, if there is one."""

    peak_bytes: int = 0
    """Highest memory usage seen, without the page cache."""

    _before: _Before = field(default_factory=_Before)
    _cpu_s: float = 0.0
    _walk_at_s: float = 0.0
    _maps_at_s: float = 0.0

    def begin(self) -> None:
        """Record the current usage as the baseline: the interpreter and the input files."""
        use = self.tree.use()
        self._before = _Before(
            growth=measure(self.folders, sys.maxsize),
            cpu_s=use.cpu_s,
            group_cpu_s=(self.group.cpu_s() if self.group else None) or 0.0,
            sockets=0 if self._is_counted else self.tree.sockets(),
            # Root may read every process. If it cannot, the program is not the cause.
            closed=os.geteuid() == 0 or self.tree.held(0, ()).closed,
        )
        self._of_memory(use)

    def used(self, wall_s: float) -> Used:
        """Return the usage of the program, as far as it was observed."""
        self._count_cpu(None)
        return Used(wall_ms=round(wall_s * 1000), cpu_ms=round(self._cpu_s * 1000), peak_bytes=self.peak_bytes)

    async def breach(self) -> Breach:
        """Wait until a limit is exceeded; never return otherwise."""
        while True:
            await asyncio.sleep(LOOK_S)
            if found := await asyncio.to_thread(self.look):
                return found

    def look(self) -> Breach | None:
        """Return the limit that is exceeded right now, if any."""
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
        """Return the memory breach if the kernel has OOM-killed a process, even after all processes are gone."""
        if self.group is None or not self.group.out_of_memory():
            return None
        self.peak_bytes = max(self.peak_bytes, self.limits.memory_bytes)
        return Breach("memory", f"needed more memory than the {_mib(self.limits.memory_bytes)} it may have")

    @property
    def _is_counted(self) -> bool:
        """Whether a control group counts all memory of the program."""
        return self.group is not None and self.group.counts_memory

    def _count_cpu(self, use: TreeUse | None) -> None:
        """Update the processor time with the larger of the process samples and the control group's count."""
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
        """Return the memory in use; without a counting control group, each socket counts with its capacity."""
        unmapped = sum(_used_bytes(each) for each in self.in_memory)
        if not self._is_counted:
            unmapped += max(0, self.tree.sockets() - self._before.sockets) * _socket_bytes()
        if use.rss_bytes + unmapped <= self.limits.memory_bytes:
            return use.rss_bytes + unmapped
        # Forked processes share most pages, so decide by a figure that counts each page once.
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
        # A file of unknown size counts with the largest size that it can have.
        grown = growth.bytes - before.bytes + held.bytes + held.unknown * self.limits.file_bytes
        if grown <= self.limits.growth_bytes:
            return None
        return Breach("growth", f"wrote {_mib(grown)} into its folders, of {_mib(self.limits.growth_bytes)}")

    def _held(self, now_s: float) -> Held:
        """Return the deleted files that its processes still hold, which no walk through the folders finds."""
        device = next((folder.stat().st_dev for folder in self.folders if folder.is_dir()), 0)
        if now_s < self._maps_at_s:
            return self.tree.held(device, ())
        self._maps_at_s = now_s + MAPS_S
        return self.tree.held(device, (INSIDE, *(os.path.realpath(folder) for folder in self.folders)))

    def _too_many(self, files: int) -> Breach:
        return Breach("growth", f"made {files} files or more, of {self.limits.growth_files}")


@cache
def _socket_bytes() -> int:
    """Return the most that an unread socket can hold: its buffer, plus a last piece of the same size."""
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
