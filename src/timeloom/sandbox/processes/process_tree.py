"""Measures the memory, processor time and files of a process and all its descendants through `/proc`."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from timeloom.sandbox.processes.cpu_time import CpuTime, ProcessSample
from timeloom.sandbox.processes.procfs import (
    CHILDREN_SYSTEM,
    OWN_USER,
    PAGE_BYTES,
    PARENT,
    RESIDENT,
    STARTED,
    STATE,
    TICKS_S,
    list_names,
    proportional_bytes,
    read_stat,
    resident_bytes,
)
from timeloom.sandbox.processes.unlinked_files import UnlinkedFiles, find_unlinked_files

_KERNEL_LISTS_CHILDREN: Final = Path("/proc/thread-self/children").exists()


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """Usage of a tree at one moment; `rss_bytes` counts a shared page once per process."""

    processes: int = 0
    rss_bytes: int = 0
    cpu_s: float = 0.0


@dataclass(slots=True)
class ProcessTree:
    """A process and its descendants. The root is usually pid 1 of a PID namespace, so no descendant escapes it."""

    root: int
    _cpu_time: CpuTime = field(default_factory=CpuTime)

    def measure(self) -> TreeUsage:
        """Return the current usage; the processor time includes processes that have ended, as far as sampled."""
        pids = self.pids()
        with_children = resident = 0
        samples: list[ProcessSample] = []
        for pid in pids:
            if (fields := read_stat(pid)) is None:
                # It has ended since it was listed, so it was running.
                samples.append(ProcessSample((pid, ""), 0, is_running=True))
                continue
            times = [int(each) for each in fields[OWN_USER : CHILDREN_SYSTEM + 1]]
            with_children += sum(times)
            samples.append(ProcessSample((pid, fields[STARTED]), times[0] + times[1], is_running=fields[STATE] == "R"))
            resident += int(fields[RESIDENT]) * PAGE_BYTES or resident_bytes(pid)
        # A parent that ignores SIGCHLD is not charged for its children, so either count can miss some time.
        spent_s = max(with_children / TICKS_S, self._cpu_time.add_samples(samples, time.monotonic()))
        return TreeUsage(len(pids), resident, spent_s)

    def pss_bytes(self) -> int:
        """Return the memory of all processes with each page counted once: exact, but slow."""
        return sum(map(proportional_bytes, self.pids()))

    def pids(self) -> list[int]:
        """Return all pids, the root first; empty if the root is gone."""
        found = [self.root] if read_stat(self.root) is not None else []
        children = _list_children if _KERNEL_LISTS_CHILDREN else children_by_parent()
        for pid in found:
            found.extend(children(pid))
        return found

    def find_unlinked(self, device: int, folders: Sequence[str]) -> UnlinkedFiles:
        """Return the unlinked files they hold on that device; `folders` are their writable folders as they see them."""
        return find_unlinked_files(self.pids(), device, folders)

    def count_sockets(self) -> int:
        """Count the sockets in the root's network namespace, including those that no process has open."""
        try:
            text = Path(f"/proc/{self.root}/net/sockstat").read_text(encoding="ascii")
        except OSError:
            return 0
        return int(text.partition("sockets: used ")[2].partition("\n")[0])


def children_by_parent() -> Callable[[int], Iterable[int]]:
    """Return a lookup of child pids from one scan of `/proc`, for kernels without a `children` file."""
    children: dict[int, list[int]] = {}
    for pid in filter(str.isdigit, list_names("/proc")):
        if (fields := read_stat(int(pid))) is not None:
            children.setdefault(int(fields[PARENT]), []).append(int(pid))
    return lambda pid: children.get(pid, ())


def _list_children(pid: int) -> Iterable[int]:
    """Return the child pids of all threads of the process."""
    found: list[int] = []
    for task in list_names(f"/proc/{pid}/task"):
        try:
            found.extend(map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split()))
        except OSError:
            continue
    return found
