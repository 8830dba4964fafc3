"""Measures times by deciles, bytes written and bytes on disk."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path


def median_s(work: Callable[[], object], repeats: int) -> float:
    """Return the median duration of the work."""
    return statistics.median(timed_s(work) for _ in range(repeats))


def timed_s(work: Callable[[], object]) -> float:
    """Return the duration of the work."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class StepTimes:
    """Durations of the steps of one sequence over several runs.

    Only the quickest run of each step is kept, because other load on the machine only adds time.
    """

    def __init__(self) -> None:
        self.quickest_s: list[float] = []

    def add(self, seconds: Sequence[float]) -> None:
        """Add one run."""
        self.quickest_s = list(map(min, self.quickest_s or seconds, seconds))

    def first_s(self) -> float:
        """Return the mean of the first tenth."""
        return statistics.mean(self.quickest_s[: self._tenth()])

    def last_s(self) -> float:
        """Return the mean of the last tenth."""
        return statistics.mean(self.quickest_s[-self._tenth() :])

    def last_median_s(self) -> float:
        """Return the median of the last tenth."""
        return statistics.median(self.quickest_s[-self._tenth() :])

    def growth(self) -> float:
        """Return the ratio of the last tenth to the first, by medians, because steps differ in size."""
        return self.last_median_s() / statistics.median(self.quickest_s[: self._tenth()])

    def _tenth(self) -> int:
        return max(1, len(self.quickest_s) // 10)


def written_bytes() -> int:
    """Return the bytes that this process has written so far; 0 if the system does not count them."""
    try:
        lines = Path(f"/proc/{os.getpid()}/io").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return int(dict(line.split(": ") for line in lines)["wchar"])


def peak_bytes() -> int:
    """Return the peak memory of this process; 0 if the system does not report it."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    # Not from `getrusage`, which includes the memory of the parent before this process started.
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def disk_bytes(folder: Path) -> int:
    """Return the disk usage of a folder's files: their size, or their blocks if those are more."""
    found = [path.lstat() for path in folder.rglob("*") if path.is_file()]
    return sum(max(stat.st_size, stat.st_blocks * 512) for stat in found)


@contextmanager
def fresh_folder(parent: Path) -> Generator[Path]:
    """Create a folder and remove it afterwards; below `parent`, because temporary folders are often in memory."""
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="work-") as name:
        yield Path(name)
