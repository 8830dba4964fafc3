"""Reads a container's control group, which the engine created, and never changes it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from timeloom.sandbox.processes.cgroup import Group, Hierarchy

_MEMORY: Final = "memory"


@dataclass(frozen=True, slots=True)
class ContainerGroup(Group):
    """The control group of a container. It remembers an OOM kill, because the group vanishes with the container."""

    _seen: set[str] = field(default_factory=set[str])

    def out_of_memory(self) -> bool:
        """Return whether the kernel was seen to OOM-kill a process of the container."""
        if Group.out_of_memory(self):
            self.note_out_of_memory()
        return "oom" in self._seen

    def note_out_of_memory(self) -> None:
        """Record an OOM kill that the engine reported."""
        self._seen.add("oom")


def group_of(pid: int, system: Path = Path("/")) -> ContainerGroup:
    """Return the group of the process in the memory hierarchy; without figures if it is not visible."""
    groups: dict[str, str] = {}
    for line in _lines(system / f"proc/{pid}/cgroup"):
        _, names, group = line.split(":", 2)
        groups.update(dict.fromkeys(names.split(","), group))
    found: list[tuple[Hierarchy, Path]] = []
    for line in _lines(system / "proc/self/mounts"):
        _, place, kind, options, *_ = line.split(" ")
        mount = system / place.lstrip("/")
        if kind == "cgroup" and _MEMORY in options.split(",") and _MEMORY in groups:
            found.append((Hierarchy(mount, 1, (_MEMORY,)), mount / groups[_MEMORY].lstrip("/")))
        elif kind == "cgroup2" and "" in groups and _MEMORY not in groups:
            found.append((Hierarchy(mount, 2, (_MEMORY,)), mount / groups[""].lstrip("/")))
    return ContainerGroup(tuple(found))


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
