"""Executes one program in the task under an init process, until its last process has ended."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from timeloom.ports.sandbox import Broker, Output, Program, Ran
from timeloom.sandbox.broker_socket import Door
from timeloom.sandbox.captured_output import Printed
from timeloom.sandbox.exit_status import PATIENT, exit_of, first, flood, how_it_ran, timeout
from timeloom.sandbox.folders.run_folder import RunFolder
from timeloom.sandbox.remote import landlock
from timeloom.sandbox.remote.drop_privileges import Cell
from timeloom.sandbox.remote.program_tree import ProgramTree
from timeloom.sandbox.watchdog import Breach, Watchdog

START_S: Final = 60.0
"""Seconds within which an interpreter must be ready for its program."""

GRACE_S: Final = 0.5
"""Seconds between SIGTERM and SIGKILL for a program that ran too long."""

_IN_MEMORY: Final = Path("/dev/shm")
_EVERYBODYS: Final = (Path("/tmp"), Path("/var/tmp"))
_LAST_WORDS_BYTES: Final = 4096


class NotStartedError(Exception):
    """The interpreter was not ready for its program; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """The init process of an execution, with its broker socket and the read ends of its output."""

    process: asyncio.subprocess.Process
    door: Door
    stdout: int
    stderr: int

    def signal(self, by: signal.Signals) -> None:
        """Send a signal to the init process."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(by)

    async def ended(self) -> None:
        """Wait until the program has ended and all its descendants are gone."""
        await self.process.wait()


async def execute(cell: Cell, run: RunFolder, program: Program, broker: Broker, output: Output, token: str) -> Ran:
    """Run the program to its end within its limits; none of its processes is left afterwards.

    Raises `NotStartedError` if it could not be confined or its interpreter did not start.
    """
    door = await Door.open(Path(cell.socket), token=token, uids=frozenset({cell.uid}))
    try:
        async with _kept(cell, door, token) as keeping:
            await _ready(keeping)
            return await _run(cell, run, program, keeping, broker, output)
    finally:
        await door.close()


@asynccontextmanager
async def _kept(cell: Cell, door: Door, token: str) -> AsyncGenerator[Keeping]:
    """Start an init process with its interpreter; both have ended when the context exits."""
    (out, their_out), (err, their_err) = os.pipe(), os.pipe()
    command = ("-I", "-m", "timeloom.sandbox.remote.init", msgspec.json.encode(cell).decode())
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=their_out,
            stderr=their_err,
            env={},
            cwd="/",
        )
    finally:
        os.close(their_out)
        os.close(their_err)
    keeping = Keeping(process, door, out, err)
    assert process.stdin is not None
    try:
        process.stdin.write(token.encode() + b"\n")
        process.stdin.close()
        yield keeping
    finally:
        keeping.signal(signal.SIGTERM)
        await asyncio.shield(keeping.ended())


async def _ready(keeping: Keeping) -> None:
    ready, ended = asyncio.ensure_future(keeping.door.ready()), asyncio.ensure_future(keeping.ended())
    try:
        await asyncio.wait((ready, ended), timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise NotStartedError(_last_words(keeping) or f"no interpreter was ready within {START_S:g} s")
        await ready
    finally:
        for each in (ready, ended):
            each.cancel()


def _last_words(keeping: Keeping) -> str:
    os.set_blocking(keeping.stderr, False)
    try:
        return os.read(keeping.stderr, _LAST_WORDS_BYTES).decode("utf-8", "replace").strip()
    except BlockingIOError:
        return ""


async def _run(cell: Cell, run: RunFolder, program: Program, keeping: Keeping, broker: Broker, output: Output) -> Ran:
    with _memory() as in_memory:
        tree = ProgramTree(keeping.process.pid, uid=cell.uid)
        watchdog = Watchdog(program.limits, tree, (run.work, run.out, *_also_writable()), in_memory=in_memory)
        watchdog.begin()
        printed = Printed(program.limits.output_bytes, output)
        try:
            printed.read("stdout", keeping.stdout)
            printed.read("stderr", keeping.stderr)
            started = time.monotonic()
            await keeping.door.start(program, broker, workdir=cell.work, output_dir=cell.out)
            breach = await _breach(keeping, watchdog, printed, program.limits.wall_s)
            wall_s = time.monotonic() - started
            keeping.signal(signal.SIGTERM)
            await keeping.ended()
            await printed.drained()
        finally:
            printed.close()
    ended = await exit_of(keeping.process.returncode or 0, keeping.door)
    return how_it_ran(ended, run.out, watchdog, printed, wall_s, breach)


def _also_writable() -> tuple[Path, ...]:
    """Return the world-writable folders, if Landlock does not keep a program out of them."""
    return () if landlock.version() else tuple(folder for folder in _EVERYBODYS if folder.is_dir())


@contextlib.contextmanager
def _memory() -> Generator[tuple[int, ...]]:
    """Open descriptors of the in-memory file systems that a program can fill."""
    descriptors = (os.open(_IN_MEMORY, os.O_PATH | os.O_CLOEXEC),) if _IN_MEMORY.is_dir() else ()
    try:
        yield descriptors
    finally:
        for each in descriptors:
            os.close(each)


async def _breach(keeping: Keeping, watchdog: Watchdog, printed: Printed, wall_s: float) -> Breach | None:
    """Wait for the end and return the breached limit, if any; a program that ran too long first gets SIGTERM."""
    breach = await first(keeping.ended(), timeout(wall_s), watchdog.breach(), flood(printed))
    if breach is not None and breach.ending in PATIENT:
        keeping.signal(signal.SIGUSR1)
        await first(keeping.ended(), asyncio.sleep(GRACE_S))
    return breach
