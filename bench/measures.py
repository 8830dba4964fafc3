"""Measuring: time by deciles, bytes written, bytes on disk."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def median_s(work: Callable[[], object], repeats: int) -> float:
    """The median of the times that the work took."""
    return statistics.median(timed_s(work) for _ in range(repeats))


def timed_s(work: Callable[[], object]) -> float:
    """The time that the work took."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Deciles:
    """Times of the first and last tenth of several runs of the same sequence; medians, because disks have bad moments."""

    def __init__(self) -> None:
        self._first: list[float] = []
        self._last: list[float] = []

    def add(self, seconds: Sequence[float]) -> None:
        """Takes in one run."""
        tenth = max(1, len(seconds) // 10)
        self._first += seconds[:tenth]
        self._last += seconds[-tenth:]

    @property
    def first_s(self) -> float:
        return statistics.median(self._first)

    @property
    def last_s(self) -> float:
        return statistics.median(self._last)

    @property
    def growth(self) -> float:
        """How many times dearer the end is than the beginning."""
        return self.last_s / self.first_s


def written_bytes() -> int:
    """The bytes that this process has handed to the system so far; 0 where the system does not count them."""
    try:
        lines = Path(f"/proc/{os.getpid()}/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return int(dict(line.split(": ") for line in lines)["wchar"])


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take on disk: their size, or their blocks where those are more."""
    found = [path.lstat() for path in folder.rglob("*") if path.is_file()]
    return sum(max(stat.st_size, stat.st_blocks * 512) for stat in found)


@contextmanager
def fresh_folder(parent: Path) -> Iterator[Path]:
    """A new folder, gone afterwards; below `parent`, because what is temporary often lies in memory."""
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="work-") as name:
        yield Path(name)
