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

MOST_S: Final = 0.2
"""Longest time that one sample accounts for. A longer gap between samples has some other cause, such as a busy host."""

Key = tuple[int, str]
"""Identity of a process: its pid and its start time."""


class Seen(NamedTuple):
    """A process at one sample: the processor time it has used so far, and whether it is running."""

    key: Key
    ticks: int
    running: bool


@dataclass(slots=True)
class Spent:
    """The total processor time of a set of processes, updated with each sample."""

    _living: dict[Key, float] = field(default_factory=dict[Key, float])
    _young: dict[Key, float] = field(default_factory=dict[Key, float])
    """Processes that were running when first sampled, at the last sample, and the time each accounts for."""

    _gone_s: float = 0.0
    _looked_s: float | None = None

    def after(self, seen: Sequence[Seen], now_s: float) -> float:
        """Add a sample and return the processor time of all processes so far."""
        living = {each.key: each.ticks / TICKS_S for each in seen}
        for key in self._living.keys() - living.keys():
            self._gone_s += max(self._living[key], self._young.get(key, 0.0))
        young = [each.key for each in seen if each.running and each.key not in self._living]
        passed_s = min(now_s - self._looked_s, MOST_S) if self._looked_s is not None else 0.0
        # Of all runnable processes, only as many ran as the machine has processors.
        share = min(1.0, _processors() / max(1, _runnable())) if young else 0.0
        self._young = dict.fromkeys(young, passed_s * share)
        self._living, self._looked_s = living, now_s
        return self._gone_s + sum(living.values())


def _processors() -> int:
    return os.cpu_count() or 1


def _runnable() -> int:
    """Return how many processes of this machine are running or ready to run."""
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0])
