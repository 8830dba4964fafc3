"""Reads a container's control group, which the engine created, and never changes it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from timeloom.sandbox.processes.cgroup import Cgroup, CgroupHierarchy
from timeloom.sandbox.processes.procfs import read_lines

_MEMORY: Final = "memory"


@dataclass(frozen=True, slots=True)
class ContainerCgroup(Cgroup):
    """The control group of a container. It remembers an OOM kill, because the group vanishes with the container."""

    _observed: set[str] = field(default_factory=set[str])

    def was_oom_killed(self) -> bool:
        """Return whether the kernel was seen to OOM-kill a process of the container."""
        if Cgroup.was_oom_killed(self):
            self.record_oom_kill()
        return "oom" in self._observed

    def record_oom_kill(self) -> None:
        """Record an OOM kill that the engine reported."""
        self._observed.add("oom")


def find_container_cgroup(pid: int, system: Path = Path("/")) -> ContainerCgroup:
    """Return the group of the process in the memory hierarchy; without figures if it is not visible."""
    groups: dict[str, str] = {}
    for line in read_lines(system / f"proc/{pid}/cgroup"):
        _, names, group = line.split(":", 2)
        groups.update(dict.fromkeys(names.split(","), group))
    found: list[tuple[CgroupHierarchy, Path]] = []
    for line in read_lines(system / "proc/self/mounts"):
        _, mount_point, kind, options, *_ = line.split(" ")
        mount = system / mount_point.lstrip("/")
        if kind == "cgroup" and _MEMORY in options.split(",") and _MEMORY in groups:
            found.append((CgroupHierarchy(mount, 1, (_MEMORY,)), mount / groups[_MEMORY].lstrip("/")))
        elif kind == "cgroup2" and "" in groups and _MEMORY not in groups:
            found.append((CgroupHierarchy(mount, 2, (_MEMORY,)), mount / groups[""].lstrip("/")))
    return ContainerCgroup(tuple(found))
