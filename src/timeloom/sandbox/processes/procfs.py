"""Processes as `/proc` tells of them, by something of theirs that lives: the thread they began with may have ended."""

import os
from pathlib import Path
from typing import Final

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
TICKS_S: Final = os.sysconf("SC_CLK_TCK")
# Places in what follows the name in `stat`, which are three less than the manual's numbers.
STATE, PARENT, OWN_USER, CHILDREN_SYSTEM, STARTED, ADDRESSED, RESIDENT = 0, 1, 11, 14, 19, 20, 21
_ENDED: Final = frozenset("ZXx")


def stat_of(pid: int) -> list[str] | None:
    """The fields after the name, which may hold anything, also what looks like fields; None where it is gone."""
    return _stat(f"/proc/{pid}")


def start_of(pid: int) -> str:
    """When the process started, as the kernel counts, since numbers are used again; empty where there is none."""
    fields = stat_of(pid)
    return fields[STARTED] if fields else ""


def place_of(pid: int) -> str | None:
    """Where `/proc` tells of its memory and its files; None where it has neither any more.

    A process whose first thread has ended looks like a dead one there, while the others go on.
    """
    fields = stat_of(pid)
    if fields is None:
        return None
    if fields[STATE] not in _ENDED:
        return f"/proc/{pid}"
    tasks = (f"/proc/{pid}/task/{task}" for task in names_in(f"/proc/{pid}/task"))
    return next((task for task in tasks if has_memory(task)), None)


def has_memory(place: str) -> bool:
    """Whether what lives there has memory: one that may not be looked into although it does has seen to that itself."""
    fields = _stat(place)
    return fields is not None and fields[STATE] not in _ENDED and int(fields[ADDRESSED]) > 0


def resident_bytes(pid: int) -> int:
    """The memory that it has, with that which it shares."""
    place = place_of(pid)
    fields = _stat(place) if place else None
    return int(fields[RESIDENT]) * PAGE_BYTES if fields else 0


def proportional_bytes(pid: int) -> int:
    """The memory that it has, its share of what is shared; all of it where the kernel does not tell the share."""
    place = place_of(pid)
    try:
        lines = Path(f"{place}/smaps_rollup").read_bytes().splitlines() if place else []
    except ProcessLookupError:
        return 0
    except OSError:
        return resident_bytes(pid)
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:")), 0)


def names_in(folder: str) -> list[str]:
    """What is in a folder of `/proc`; nothing where it is gone or closed."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - thousands of times a second
    except OSError:
        return []


def _stat(place: str) -> list[str] | None:
    try:
        text = Path(f"{place}/stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    return text.rpartition(") ")[2].split(" ")
