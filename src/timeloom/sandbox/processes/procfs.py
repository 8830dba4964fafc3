"""Reads process data from `/proc`, including processes whose main thread has ended."""

import os
from pathlib import Path
from typing import Final

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
TICKS_S: Final = os.sysconf("SC_CLK_TCK")
# Indexes into the fields after the name in `stat`: three less than the numbers in proc(5).
STATE, PARENT, OWN_USER, CHILDREN_SYSTEM, STARTED, ADDRESSED, RESIDENT = 0, 1, 11, 14, 19, 20, 21
_ENDED: Final = frozenset("ZXx")


def read_stat(pid: int) -> list[str] | None:
    """Return the `stat` fields after the process name, which may contain anything; None if the process is gone."""
    return _read_stat_file(f"/proc/{pid}")


def read_start_time(pid: int) -> str:
    """Return the start time in kernel ticks, which tells reused pids apart; empty if the process is gone."""
    fields = read_stat(pid)
    return fields[STARTED] if fields else ""


def find_live_path(pid: int) -> str | None:
    """Return the `/proc` path with the memory and files of the process; None if it has neither any more.

    A process whose main thread has ended looks dead there while its other threads still run.
    """
    fields = read_stat(pid)
    if fields is None:
        return None
    if fields[STATE] not in _ENDED:
        return f"/proc/{pid}"
    tasks = (f"/proc/{pid}/task/{task}" for task in list_names(f"/proc/{pid}/task"))
    return next((task for task in tasks if has_memory(task)), None)


def has_memory(path: str) -> bool:
    """Return whether the task has memory; if it is unreadable nevertheless, it made itself unreadable."""
    fields = _read_stat_file(path)
    return fields is not None and fields[STATE] not in _ENDED and int(fields[ADDRESSED]) > 0


def resident_bytes(pid: int) -> int:
    """Return the resident memory of the process, including shared pages."""
    path = find_live_path(pid)
    fields = _read_stat_file(path) if path else None
    return int(fields[RESIDENT]) * PAGE_BYTES if fields else 0


def proportional_bytes(pid: int) -> int:
    """Return the proportional memory (PSS) of the process, or all resident memory if the kernel hides it."""
    path = find_live_path(pid)
    try:
        lines = Path(f"{path}/smaps_rollup").read_bytes().splitlines() if path else []
    except ProcessLookupError:
        return 0
    except OSError:
        return resident_bytes(pid)
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:")), 0)


def list_names(folder: str) -> list[str]:
    """List a folder of `/proc`; empty if the folder is gone or unreadable."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - thousands of times a second
    except OSError:
        return []


def read_lines(file: Path) -> list[str]:
    """Return the lines of a file in `/proc` or `/sys`; empty if the file is gone or unreadable."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _read_stat_file(path: str) -> list[str] | None:
    try:
        text = Path(f"{path}/stat").read_bytes().decode("ascii", "replace")
    except OSError:
        return None
    return text.rpartition(") ")[2].split(" ")
