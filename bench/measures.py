"""Measuring: time by deciles, bytes written, bytes on disk."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
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


class Steps:
    """The times of the steps of one sequence over several runs: of each step the quickest, since what else a machine
    does only adds."""

    def __init__(self) -> None:
        self.quickest_s: list[float] = []

    def add(self, seconds: Sequence[float]) -> None:
        """Takes in one run."""
        self.quickest_s = list(map(min, self.quickest_s or seconds, seconds))

    def first_s(self) -> float:
        """The mean of the first tenth."""
        return statistics.mean(self.quickest_s[: self._tenth()])

    def last_s(self) -> float:
        """The mean of the last tenth."""
        return statistics.mean(self.quickest_s[-self._tenth() :])

    def last_median_s(self) -> float:
        """The median of the last tenth."""
        return statistics.median(self.quickest_s[-self._tenth() :])

    def growth(self) -> float:
        """How many times dearer the last tenth is than the first, by medians, because steps differ in size."""
        return self.last_median_s() / statistics.median(self.quickest_s[: self._tenth()])

    def _tenth(self) -> int:
        return max(1, len(self.quickest_s) // 10)


def written_bytes() -> int:
    """The bytes that this process has handed to the system so far; 0 where the system does not count them."""
    try:
        lines = Path(f"/proc/{os.getpid()}/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return int(dict(line.split(": ") for line in lines)["wchar"])


def peak_bytes() -> int:
    """The most memory that this process has had; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    # Not from `getrusage`, which counts what the parent had before it started this process.
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def disk_bytes(folder: Path) -> int:
    """What the files of a folder take on disk: their size, or their blocks where those are more."""
    found = [path.lstat() for path in folder.rglob("*") if path.is_file()]
    return sum(max(stat.st_size, stat.st_blocks * 512) for stat in found)


@contextmanager
def fresh_folder(parent: Path) -> Generator[Path]:
    """A new folder, gone afterwards; below `parent`, because what is temporary often lies in memory."""
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="work-") as name:
        yield Path(name)
