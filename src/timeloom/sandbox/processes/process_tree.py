"""A tree of processes: what a process and all that descend from it use together, by what `/proc` says of them."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from timeloom.sandbox.processes.cpu_time import Seen, Spent
from timeloom.sandbox.processes.procfs import (
    CHILDREN_SYSTEM,
    OWN_USER,
    PAGE_BYTES,
    PARENT,
    RESIDENT,
    STARTED,
    STATE,
    TICKS_S,
    names_in,
    proportional_bytes,
    resident_bytes,
    stat_of,
)
from timeloom.sandbox.processes.unlinked_files import Held, held_by

_KERNEL_LISTS_CHILDREN: Final = Path("/proc/thread-self/children").exists()


@dataclass(frozen=True, slots=True)
class TreeUse:
    """What a tree uses at a moment; `rss_bytes` counts a page as often as there are processes that have it."""

    processes: int = 0
    rss_bytes: int = 0
    cpu_s: float = 0.0


@dataclass(slots=True)
class Tree:
    """The processes that descend from one, which is usually the first of a PID namespace, so that none gets away."""

    root: int
    _spent: Spent = field(default_factory=Spent)

    def use(self) -> TreeUse:
        """What they use now; the processor's time is also of those that are gone, by what was seen of them."""
        pids = self.pids()
        with_children = resident = 0
        seen: list[Seen] = []
        for pid in pids:
            if (fields := stat_of(pid)) is None:
                # It has ended since it was listed, and to do that it ran.
                seen.append(Seen((pid, ""), 0, running=True))
                continue
            times = [int(each) for each in fields[OWN_USER : CHILDREN_SYSTEM + 1]]
            with_children += sum(times)
            seen.append(Seen((pid, fields[STARTED]), times[0] + times[1], running=fields[STATE] == "R"))
            resident += int(fields[RESIDENT]) * PAGE_BYTES or resident_bytes(pid)
        # Whoever ignores its children's ends is not charged for them, so both ways of counting can miss some.
        spent_s = max(with_children / TICKS_S, self._spent.after(seen, time.monotonic()))
        return TreeUse(len(pids), resident, spent_s)

    def shared_bytes(self) -> int:
        """The memory they have, each page counted once: exact, but slow to ask for."""
        return sum(map(proportional_bytes, self.pids()))

    def pids(self) -> list[int]:
        """All of them, the root first; none where it is gone."""
        found = [self.root] if stat_of(self.root) is not None else []
        children = _children if _KERNEL_LISTS_CHILDREN else by_parents()
        for pid in found:
            found.extend(children(pid))
        return found

    def held(self, device: int, folders: Sequence[str]) -> Held:
        """What they hold on that device of files that have no name; `folders` are theirs, by the names they know."""
        return held_by(self.pids(), device, folders)

    def sockets(self) -> int:
        """How many sockets there are in the network namespace of the first of them, also such as nobody has open."""
        try:
            text = Path(f"/proc/{self.root}/net/sockstat").read_text(encoding="ascii")
        except OSError:
            return 0
        return int(text.partition("sockets: used ")[2].partition("\n")[0])


def by_parents() -> Callable[[int], Iterable[int]]:
    """Children of processes from one look at all processes, for kernels that keep no list of children."""
    children: dict[int, list[int]] = {}
    for pid in filter(str.isdigit, names_in("/proc")):
        if (fields := stat_of(int(pid))) is not None:
            children.setdefault(int(fields[PARENT]), []).append(int(pid))
    return lambda pid: children.get(pid, ())


def _children(pid: int) -> Iterable[int]:
    """Those that the threads of the process have started."""
    found: list[int] = []
    for task in names_in(f"/proc/{pid}/task"):
        try:
            found.extend(map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split()))
        except OSError:
            continue
    return found
