"""An execution in the task: a program under its keeper, from its first line to the end of its last process."""

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
"""How long an interpreter may take to begin to wait for its program."""

GRACE_S: Final = 0.5
"""Between asking a program that took too long to end, and ending it."""

_IN_MEMORY: Final = Path("/dev/shm")
_EVERYBODYS: Final = (Path("/tmp"), Path("/var/tmp"))
_LAST_WORDS_BYTES: Final = 4096


class NotStartedError(Exception):
    """The executor did not come so far as to wait for its program; the message says why."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """The keeper of an execution, with the door and the ends of the streams of its program."""

    process: asyncio.subprocess.Process
    door: Door
    stdout: int
    stderr: int

    def signal(self, by: signal.Signals) -> None:
        """Tells the keeper."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(by)

    async def ended(self) -> None:
        """Waits until the program has ended, and all that it has started is gone."""
        await self.process.wait()


async def execute(cell: Cell, run: RunFolder, program: Program, broker: Broker, output: Output, token: str) -> Ran:
    """Runs the program to its end, within its limits; afterwards none of its processes is left.

    Raises `NotStartedError` where it could not be confined or its interpreter did not start.
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
    """A keeper with its executor; both are gone when this is left, whatever happens."""
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
    """Folders that every user may write to, where nothing keeps a program from them."""
    return () if landlock.version() else tuple(folder for folder in _EVERYBODYS if folder.is_dir())


@contextlib.contextmanager
def _memory() -> Generator[tuple[int, ...]]:
    """Descriptors of what a program can fill that is in memory."""
    descriptors = (os.open(_IN_MEMORY, os.O_PATH | os.O_CLOEXEC),) if _IN_MEMORY.is_dir() else ()
    try:
        yield descriptors
    finally:
        for each in descriptors:
            os.close(each)


async def _breach(keeping: Keeping, watchdog: Watchdog, printed: Printed, wall_s: float) -> Breach | None:
    """The limit that ended it; a program that took too long is asked to end before it is ended."""
    breach = await first(keeping.ended(), timeout(wall_s), watchdog.breach(), flood(printed))
    if breach is not None and breach.ending in PATIENT:
        keeping.signal(signal.SIGUSR1)
        await first(keeping.ended(), asyncio.sleep(GRACE_S))
    return breach
