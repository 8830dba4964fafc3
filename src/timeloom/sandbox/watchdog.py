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

from timeloom.ports.sandbox import ExecutionLimits, ExitReason, ProgramUsage
from timeloom.sandbox.folders.disk_usage import MAX_DEPTH, DiskUsage, measure_folders
from timeloom.sandbox.processes.cgroup import Cgroup
from timeloom.sandbox.processes.process_tree import ProcessTree, TreeUsage
from timeloom.sandbox.processes.unlinked_files import UnlinkedFiles

CHECK_INTERVAL_S: Final = 0.03
"""Seconds between two checks. A longer interval lets a program overshoot: it fills some 100 MB of memory in this time.
A shorter one costs more than 1% of a processor for each running program."""

WALK_PAUSE_FACTOR: Final = 4
"""After a walk through the folders, the next one waits this many times as long as it took, so that many files cost
little."""

MAPS_INTERVAL_S: Final = 0.1
"""Seconds between two checks of the mapped files. Such a check takes as long as the rest of all checks together."""

GUEST_WORKSPACE: Final = "/workspace"
"""Path of the folders inside a sandbox that does not keep their host paths."""

_SOCKET_BUFFER: Final = Path("/proc/sys/net/core/wmem_default")
_SOCKET_BYTES: Final = 212_992


@dataclass(frozen=True, slots=True)
class Breach:
    """An exceeded limit: the ending that it causes, and a text with the numbers."""

    ending: ExitReason
    detail: str


@dataclass(frozen=True, slots=True)
class _Baseline:
    """The usage before the program started, which is not charged to it."""

    disk: DiskUsage = field(default_factory=DiskUsage)
    cpu_s: float = 0.0
    group_cpu_s: float = 0.0
    sockets: int = 0
    may_be_unreadable: bool = False
    """Whether unreadable processes are normal here, and therefore no sign of evasion."""


@dataclass(slots=True)
class Watchdog:
    """Watches one execution: its process tree, the folders it writes to, and its in-memory file systems."""

    limits: ExecutionLimits
    tree: ProcessTree
    folders: Sequence[Path]
    in_memory: Sequence[int] = ()
    """Descriptors of in-memory file systems that belong to this program alone."""

    group: Cgroup | None = None
    """The control group in which the kernel enforces the limits, if there is one."""

    peak_bytes: int = 0
    """Highest memory usage seen, without the page cache."""

    _baseline: _Baseline = field(default_factory=_Baseline)
    _cpu_s: float = 0.0
    _next_walk_s: float = 0.0
    _next_maps_s: float = 0.0

    def take_baseline(self) -> None:
        """Record the current usage as the baseline: the interpreter and the input files."""
        use = self.tree.measure()
        self._baseline = _Baseline(
            disk=measure_folders(self.folders, sys.maxsize),
            cpu_s=use.cpu_s,
            group_cpu_s=(self.group.cpu_s() if self.group else None) or 0.0,
            sockets=0 if self._group_counts_memory else self.tree.count_sockets(),
            # Root may read every process. If it cannot, the program is not the cause.
            may_be_unreadable=os.geteuid() == 0 or self.tree.find_unlinked(0, ()).is_unreadable,
        )
        self._check_memory(use)

    def measure_usage(self, wall_s: float) -> ProgramUsage:
        """Return the usage of the program, as far as it was observed."""
        self._count_cpu(None)
        return ProgramUsage(wall_ms=round(wall_s * 1000), cpu_ms=round(self._cpu_s * 1000), peak_bytes=self.peak_bytes)

    async def wait_breach(self) -> Breach:
        """Wait until a limit is exceeded; never return otherwise."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            if found := await asyncio.to_thread(self.find_breach):
                return found

    def find_breach(self) -> Breach | None:
        """Return the limit that is exceeded right now, if any."""
        use = self.tree.measure()
        self._count_cpu(use)
        return (
            self.find_oom_breach()
            or self._check_cpu()
            or self._check_memory(use)
            or self._check_memory_files()
            or self._check_folders()
        )

    def find_oom_breach(self) -> Breach | None:
        """Return the memory breach if the kernel has OOM-killed a process, even after all processes are gone."""
        if self.group is None or not self.group.was_oom_killed():
            return None
        self.peak_bytes = max(self.peak_bytes, self.limits.memory_bytes)
        return Breach("memory", f"needed more memory than the {_mib(self.limits.memory_bytes)} it may have")

    @property
    def _group_counts_memory(self) -> bool:
        """Whether a control group counts all memory of the program."""
        return self.group is not None and self.group.counts_memory

    def _count_cpu(self, use: TreeUsage | None) -> None:
        """Update the processor time with the larger of the process samples and the control group's count."""
        counted = self.group.cpu_s() if self.group else None
        seen_s = use.cpu_s - self._baseline.cpu_s if use else 0.0
        self._cpu_s = max(self._cpu_s, seen_s, (counted or 0.0) - self._baseline.group_cpu_s)

    def _check_cpu(self) -> Breach | None:
        if self._cpu_s <= self.limits.cpu_s:
            return None
        return Breach("cpu", f"used {self._cpu_s:.1f} s of processor time, of {self.limits.cpu_s:g} s")

    def _check_memory(self, use: TreeUsage) -> Breach | None:
        memory = self._memory_bytes(use)
        self.peak_bytes = max(self.peak_bytes, memory)
        if memory <= self.limits.memory_bytes:
            return None
        return Breach("memory", f"had {_mib(memory)} of memory, of {_mib(self.limits.memory_bytes)}")

    def _memory_bytes(self, use: TreeUsage) -> int:
        """Return the memory in use; without a counting control group, each socket counts with its capacity."""
        unmapped = sum(_used_bytes(each) for each in self.in_memory)
        if not self._group_counts_memory:
            unmapped += max(0, self.tree.count_sockets() - self._baseline.sockets) * _socket_bytes()
        if use.rss_bytes + unmapped <= self.limits.memory_bytes:
            return use.rss_bytes + unmapped
        # Forked processes share most pages, so decide by a figure that counts each page once.
        counted = self.group.memory_bytes() if self.group else None
        return self.tree.pss_bytes() + unmapped if counted is None else counted

    def _check_memory_files(self) -> Breach | None:
        files = sum(_used_files(each) for each in self.in_memory)
        return self._file_count_breach(files) if files > self.limits.growth_files else None

    def _check_folders(self) -> Breach | None:
        started = time.monotonic()
        if started < self._next_walk_s:
            return None
        before = self._baseline.disk
        growth = measure_folders(self.folders, before.files + self.limits.growth_files)
        unlinked = self._find_unlinked(started)
        self._next_walk_s = time.monotonic() + WALK_PAUSE_FACTOR * (time.monotonic() - started)
        if growth.is_too_deep:
            return Breach("growth", f"nested its folders deeper than {MAX_DEPTH}")
        if growth.is_unreadable:
            return Breach("growth", "closed one of its folders to those who count what is in it")
        if unlinked.has_too_many_mappings or (unlinked.is_unreadable and not self._baseline.may_be_unreadable):
            return Breach("growth", "kept those who count from seeing which files it holds")
        if growth.files - before.files > self.limits.growth_files:
            return self._file_count_breach(growth.files - before.files)
        # A file of unknown size counts with the largest size that it can have.
        grown = growth.bytes - before.bytes + unlinked.bytes + unlinked.unknown_files * self.limits.file_bytes
        if grown <= self.limits.growth_bytes:
            return None
        return Breach("growth", f"wrote {_mib(grown)} into its folders, of {_mib(self.limits.growth_bytes)}")

    def _find_unlinked(self, now_s: float) -> UnlinkedFiles:
        """Return the deleted files that its processes still hold, which no walk through the folders finds."""
        device = next((folder.stat().st_dev for folder in self.folders if folder.is_dir()), 0)
        if now_s < self._next_maps_s:
            return self.tree.find_unlinked(device, ())
        self._next_maps_s = now_s + MAPS_INTERVAL_S
        return self.tree.find_unlinked(
            device, (GUEST_WORKSPACE, *(os.path.realpath(folder) for folder in self.folders))
        )

    def _file_count_breach(self, files: int) -> Breach:
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
