"""Waits for the end of a program and builds the result of its run."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeloom.platform.tasks import cancel_to_completion
from timeloom.ports.sandbox import ProgramResult
from timeloom.sandbox.broker_socket import BrokerSocket
from timeloom.sandbox.captured_output import CapturedOutput
from timeloom.sandbox.watchdog import Breach, Watchdog

GRACEFUL_ENDINGS: Final = frozenset({"timeout", "cpu"})
"""Endings that allow the program a grace period after SIGTERM: the program harms no one in that time."""

_SIGNAL_OFFSET: Final = 128
_LAST_SIGNAL: Final = 64


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended."""

    code: int
    """Exit code as shells count it: 128 plus the signal number if a signal ended the process."""

    by_signal: bool


async def resolve_exit_status(code: int, broker_socket: BrokerSocket) -> ExitStatus:
    """Return how the program ended: by a signal, or by itself with an exit code that looks like one."""
    could_be_signal = _SIGNAL_OFFSET < code <= _SIGNAL_OFFSET + _LAST_SIGNAL
    return ExitStatus(code, could_be_signal and await broker_socket.wait_exit_code() != code)


async def wait_first_breach(*waits: "Coroutine[None, None, Breach | None]") -> Breach | None:
    """Return the limit that is exceeded first, or None if the program ends before that."""
    tasks = [asyncio.create_task(each) for each in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_to_completion(*tasks)
    # `waits` starts with the program's exit, which wins if several are done.
    return next(each for each in tasks if each in done).result()


async def wait_timeout(wall_s: float) -> Breach:
    """Wait for the wall-clock limit and return its breach."""
    await asyncio.sleep(wall_s)
    return Breach("timeout", f"took longer than {wall_s:g} s")


async def wait_output_breach(output: CapturedOutput) -> Breach:
    """Wait until the output limit is exceeded and return its breach."""
    return Breach("output", await output.wait_over_limit())


def build_result(
    status: ExitStatus, out_dir: Path, watchdog: Watchdog, output: CapturedOutput, wall_s: float, breach: Breach | None
) -> ProgramResult:
    """Build the result of a program that has ended."""
    return ProgramResult(
        ending=breach.ending if breach else "killed" if status.by_signal else "exited",
        exit_code=status.code,
        out_dir=out_dir,
        stdout_tail=output.tail("stdout"),
        stderr_tail=output.tail("stderr"),
        used=watchdog.measure_usage(wall_s),
        detail=breach.detail if breach else "",
    )
