"""Adds up the processor time of processes from samples, including processes that end between two samples.

The kernel charges an ended process to its parent only if the parent waits for it. Therefore this module keeps a
separate account. A process that was running at its first sample and gone at the next one counts with the time between
the two samples.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from timeloom.sandbox.processes.procfs import TICKS_S

MAX_SAMPLE_S: Final = 0.2
"""Longest time that one sample accounts for. A longer gap between samples has some other cause, such as a busy host."""

ProcessKey = tuple[int, str]
"""Identity of a process: its pid and its start time."""


class ProcessSample(NamedTuple):
    """A process at one sample: the processor time it has used so far, and whether it is running."""

    key: ProcessKey
    ticks: int
    is_running: bool


@dataclass(slots=True)
class CpuTime:
    """The total processor time of a set of processes, updated with each sample."""

    _alive: dict[ProcessKey, float] = field(default_factory=dict[ProcessKey, float])
    _new_running: dict[ProcessKey, float] = field(default_factory=dict[ProcessKey, float])
    """Processes that were running when first sampled, at the last sample, and the time each accounts for."""

    _ended_s: float = 0.0
    _sampled_at_s: float | None = None

    def add_samples(self, samples: Sequence[ProcessSample], now_s: float) -> float:
        """Add a sample and return the processor time of all processes so far."""
        living = {each.key: each.ticks / TICKS_S for each in samples}
        for key in self._alive.keys() - living.keys():
            self._ended_s += max(self._alive[key], self._new_running.get(key, 0.0))
        new_running = [each.key for each in samples if each.is_running and each.key not in self._alive]
        passed_s = min(now_s - self._sampled_at_s, MAX_SAMPLE_S) if self._sampled_at_s is not None else 0.0
        # Of all runnable processes, only as many ran as the machine has processors.
        share = min(1.0, _processors() / max(1, _count_runnable())) if new_running else 0.0
        self._new_running = dict.fromkeys(new_running, passed_s * share)
        self._alive, self._sampled_at_s = living, now_s
        return self._ended_s + sum(living.values())


def _processors() -> int:
    return os.cpu_count() or 1


def _count_runnable() -> int:
    """Return how many processes of this machine are running or ready to run."""
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0])
