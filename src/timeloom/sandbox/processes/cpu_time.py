"""Processor time that processes have spent, also of those whose end nobody waits for, so that nobody is charged for it.

What is seen of a process counts. One that ran when it was seen for the first time, and is gone at the next look, is
taken for a sample: it counts for as long as something like it has run between two looks.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from timeloom.sandbox.processes.procfs import TICKS_S

MOST_S: Final = 0.2
"""The longest time that one sample stands for; looks that came later than that were held up by something else."""

Key = tuple[int, str]
"""A process: its number, and when it started."""


class Seen(NamedTuple):
    """A process at a look: the time it has spent so far, and whether it runs."""

    key: Key
    ticks: int
    running: bool


@dataclass(slots=True)
class Spent:
    """The account of some processes, kept from look to look."""

    _living: dict[Key, float] = field(default_factory=dict[Key, float])
    _young: dict[Key, float] = field(default_factory=dict[Key, float])
    """Those that ran when they were seen for the first time, at the last look, and what each stands for."""

    _gone_s: float = 0.0
    _looked_s: float | None = None

    def after(self, seen: Sequence[Seen], now_s: float) -> float:
        """What all of them have spent, by this look and those before it."""
        living = {each.key: each.ticks / TICKS_S for each in seen}
        for key in self._living.keys() - living.keys():
            self._gone_s += max(self._living[key], self._young.get(key, 0.0))
        young = [each.key for each in seen if each.running and each.key not in self._living]
        passed_s = min(now_s - self._looked_s, MOST_S) if self._looked_s is not None else 0.0
        # Of all that could run, on this machine, as many did as there are processors.
        share = min(1.0, _processors() / max(1, _runnable())) if young else 0.0
        self._young = dict.fromkeys(young, passed_s * share)
        self._living, self._looked_s = living, now_s
        return self._gone_s + sum(living.values())


def _processors() -> int:
    return os.cpu_count() or 1


def _runnable() -> int:
    """How many of this machine's processes run or could."""
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0])
