"""Creates and reads control groups, in which the kernel enforces and counts resources.

Version 2 has one hierarchy, version 1 has one per controller, and many machines have both. A group is one folder in
each hierarchy with a controller that we need. Without control groups, only the watchdog limits memory.
"""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import ExecutionLimits
from timeloom.sandbox.processes.procfs import read_lines, read_start_time

CONTROLLERS: Final = ("memory", "pids", "cpuacct")

_SYSTEM: Final = Path("/")
_PREFIX: Final = "timeloom-"
_EMPTY_S: Final = 2.0
_PAUSE_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class CgroupHierarchy:
    """A folder where groups can be created, and the controllers that are available there."""

    folder: Path
    version: int
    controllers: tuple[str, ...]
    top: Path | None = None
    """Mount point of the whole hierarchy, if known."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A control group created for one execution."""

    folders: tuple[tuple[CgroupHierarchy, Path], ...]

    def add_process(self, pid: int) -> None:
        """Move the process into the group, if it still exists; its later children start in the group."""
        for _, folder in self.folders:
            with contextlib.suppress(ProcessLookupError):
                (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def set_limits(self, limits: ExecutionLimits) -> None:
        """Set these limits."""
        for hierarchy, folder in self.folders:
            for file, value in _limit_files(hierarchy, limits):
                _write(folder / file, value)

    def was_oom_killed(self) -> bool:
        """Return whether the kernel has OOM-killed a process of the group."""
        return any(_oom_kills(hierarchy, folder) > 0 for hierarchy, folder in self.folders)

    @property
    def counts_memory(self) -> bool:
        """Whether the kernel limits all memory of the group: mappings, in-memory files and sockets."""
        return any("memory" in place.controllers for place, _ in self.folders)

    def memory_bytes(self) -> int | None:
        """Return its memory with each page counted once, without page cache; None if it is not counted."""
        for hierarchy, folder in self.folders:
            counts = _read_counts(folder / "memory.stat") if "memory" in hierarchy.controllers else {}
            names = ("total_rss", "total_shmem") if hierarchy.version == 1 else ("anon", "shmem")
            if counts.keys() >= set(names):
                return sum(counts[name] for name in names)
        return None

    def cpu_s(self) -> float | None:
        """Return the processor time of all processes that were ever in the group; None if it is not counted."""
        for hierarchy, folder in self.folders:
            if hierarchy.version == 2 and (usage_us := _read_counts(folder / "cpu.stat").get("usage_usec")) is not None:
                return usage_us / 1e6
            if "cpuacct" in hierarchy.controllers:
                return next((int(line) / 1e9 for line in read_lines(folder / "cpuacct.usage")), None)
        return None

    def remove(self) -> None:
        """Remove the group; its processes must be gone or about to exit."""
        deadline = time.monotonic() + _EMPTY_S
        for _, folder in self.folders:
            while folder.is_dir():
                try:
                    folder.rmdir()
                except OSError:
                    # The kernel releases a group shortly after its last process has exited.
                    if time.monotonic() > deadline:
                        break
                    time.sleep(_PAUSE_S)


def find_hierarchies(system: Path = _SYSTEM) -> tuple[CgroupHierarchy, ...]:
    """Return where this process can create groups that limit memory and processes; empty if nowhere."""
    own = _current_groups(system / "proc/self/cgroup")
    found: list[CgroupHierarchy] = []
    for line in read_lines(system / "proc/self/mounts"):
        _, mount_point, kind, options, *_ = line.split(" ")
        folder = system / mount_point.lstrip("/")
        match kind:
            case "cgroup":
                names = tuple(name for name in CONTROLLERS if name in options.split(","))
                group = own.get(names[0], "") if names else ""
                found += [CgroupHierarchy(folder / group.lstrip("/"), 1, names, folder)] if names else []
            case "cgroup2":
                # A group with processes cannot delegate controllers, so create ours beside the current group.
                parent = (folder / own.get("", "").lstrip("/")).parent if own.get("", "/") != "/" else folder
                given = "".join(read_lines(parent / "cgroup.subtree_control")).split()
                names = tuple(name for name in CONTROLLERS if name in given)
                found += [CgroupHierarchy(parent, 2, names, folder)] if names else []
            case _:
                pass
    return tuple(each for each in found if os.access(each.folder, os.W_OK))


def create_cgroup(hierarchies: tuple[CgroupHierarchy, ...], name: str, limits: ExecutionLimits) -> Cgroup | None:
    """Create a group with these limits, tagged with this process; None if the kernel refuses."""
    folder_name = f"{_PREFIX}{_pid_namespace()}.{os.getpid()}.{read_start_time(os.getpid())}-{name}"
    group = Cgroup(tuple((place, place.folder / folder_name) for place in hierarchies))
    try:
        for _, folder in group.folders:
            folder.mkdir()
        group.set_limits(limits)
    except OSError:
        group.remove()
        return None
    return group if hierarchies else None


def remove_dead_cgroups(hierarchies: tuple[CgroupHierarchy, ...]) -> None:
    """Remove the groups of dead supervisors, also those below groups other than ours."""
    for hierarchy in hierarchies:
        found = [Path(at) / name for at, names, _ in os.walk(hierarchy.top or hierarchy.folder) for name in names]
        dead = [folder for folder in found if folder.name.startswith(_PREFIX) and not _is_alive(folder.name)]
        Cgroup(tuple((hierarchy, folder) for folder in dead)).remove()


def _is_alive(name: str) -> bool:
    """Return whether the process named in a group's name (namespace, pid, start time) may be alive.

    A reused pid has another start time. Processes of another pid namespace are assumed to be alive.
    """
    match name.removeprefix(_PREFIX).partition("-")[0].split("."):
        case [namespace, pid, started] if namespace == _pid_namespace() and pid.isdigit():
            return read_start_time(int(pid)) == started
        case _:
            return True


def _pid_namespace() -> str:
    """Return the id of the pid namespace of this process."""
    return f"pid{Path('/proc/self/ns/pid').stat().st_ino}"


def _limit_files(hierarchy: CgroupHierarchy, limits: ExecutionLimits) -> list[tuple[str, str]]:
    # One more than the program may have: pid 1 of its namespace.
    processes = ("pids.max", str(limits.processes + 1))
    memory = (
        [("memory.limit_in_bytes", str(limits.memory_bytes)), ("memory.swappiness", "0")]
        if hierarchy.version == 1
        else [("memory.max", str(limits.memory_bytes)), ("memory.swap.max", "0"), ("memory.oom.group", "1")]
    )
    return [
        *(memory if "memory" in hierarchy.controllers else []),
        *([processes] if "pids" in hierarchy.controllers else []),
    ]


def _current_groups(file: Path) -> dict[str, str]:
    """Return the group of this process by controller; the version 2 group has an empty name."""
    found: dict[str, str] = {}
    for line in read_lines(file):
        _, names, group = line.split(":", 2)
        found.update(dict.fromkeys(names.split(","), group))
    return found


def _oom_kills(hierarchy: CgroupHierarchy, folder: Path) -> int:
    file = folder / ("memory.oom_control" if hierarchy.version == 1 else "memory.events")
    return _read_counts(file).get("oom_kill", 0)


def _read_counts(file: Path) -> dict[str, int]:
    """Parse a file with one name and one number per line."""
    return {name: int(number) for name, _, number in (line.partition(" ") for line in read_lines(file))}


def _write(file: Path, text: str) -> None:
    # A kernel without swap accounting lacks the swap file.
    with contextlib.suppress(FileNotFoundError):
        file.write_text(text, encoding="ascii")
