"""Waits for the end of a program and builds the result of its run."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import Ran
from timeloom.sandbox.broker_socket import Door
from timeloom.sandbox.captured_output import Printed
from timeloom.sandbox.watchdog import Breach, Watchdog

PATIENT: Final = frozenset({"timeout", "cpu"})
"""Endings that allow the program a grace period after SIGTERM: the program harms no one in that time."""

_SIGNALLED: Final = 128
_LAST_SIGNAL: Final = 64


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended."""

    code: int
    """Exit code as shells count it: 128 plus the signal number if a signal ended the process."""

    by_signal: bool


async def exit_of(code: int, door: Door) -> Exit:
    """Return how the program ended: by a signal, or by itself with an exit code that looks like one."""
    looks_so = _SIGNALLED < code <= _SIGNALLED + _LAST_SIGNAL
    return Exit(code, looks_so and await door.last_word() != code)


async def first(*waits: "Coroutine[None, None, Breach | None]") -> Breach | None:
    """Return the limit that is exceeded first, or None if the program ends before that."""
    tasks = [asyncio.create_task(each) for each in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    # `waits` starts with the program's exit, which wins if several are done.
    return next(each for each in tasks if each in done).result()


async def timeout(wall_s: float) -> Breach:
    """Wait for the wall-clock limit and return its breach."""
    await asyncio.sleep(wall_s)
    return Breach("timeout", f"took longer than {wall_s:g} s")


async def flood(printed: Printed) -> Breach:
    """Wait until the output limit is exceeded and return its breach."""
    return Breach("output", await printed.too_much())


def how_it_ran(
    ended: Exit, out_dir: Path, watchdog: Watchdog, printed: Printed, wall_s: float, breach: Breach | None
) -> Ran:
    """Build the result of a program that has ended."""
    return Ran(
        ending=breach.ending if breach else "killed" if ended.by_signal else "exited",
        exit_code=ended.code,
        out_dir=out_dir,
        stdout_tail=printed.tail("stdout"),
        stderr_tail=printed.tail("stderr"),
        used=watchdog.used(wall_s),
        detail=breach.detail if breach else "",
    )
