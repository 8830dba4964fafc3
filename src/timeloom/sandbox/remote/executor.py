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

from timeloom.platform.tasks import finishes_before
from timeloom.ports.sandbox import Broker, OutputSink, Program, ProgramResult
from timeloom.sandbox.broker_socket import BrokerSocket
from timeloom.sandbox.captured_output import CapturedOutput
from timeloom.sandbox.exit_status import (
    GRACEFUL_ENDINGS,
    build_result,
    resolve_exit_status,
    wait_first_breach,
    wait_output_breach,
    wait_timeout,
)
from timeloom.sandbox.folders.run_folder import RunFolder
from timeloom.sandbox.remote import landlock
from timeloom.sandbox.remote.drop_privileges import ConfinementSpec
from timeloom.sandbox.remote.program_tree import ProgramTree
from timeloom.sandbox.watchdog import Breach, Watchdog

START_S: Final = 60.0
"""Seconds within which an interpreter must be ready for its program."""

GRACE_S: Final = 0.5
"""Seconds between SIGTERM and SIGKILL for a program that ran too long."""

_IN_MEMORY: Final = Path("/dev/shm")
_WORLD_WRITABLE: Final = (Path("/tmp"), Path("/var/tmp"))
_LAST_WORDS_BYTES: Final = 4096


class NotStartedError(Exception):
    """The interpreter was not ready for its program; the message is the reason."""


@dataclass(frozen=True, slots=True)
class InitProcess:
    """The init process of an execution, with its broker socket and the read ends of its output."""

    process: asyncio.subprocess.Process
    broker_socket: BrokerSocket
    stdout: int
    stderr: int

    def send_signal(self, by: signal.Signals) -> None:
        """Send a signal to the init process."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(by)

    async def wait_exit(self) -> None:
        """Wait until the program has ended and all its descendants are gone."""
        await self.process.wait()


async def execute_program(
    spec: ConfinementSpec, run: RunFolder, program: Program, broker: Broker, output: OutputSink, token: str
) -> ProgramResult:
    """Run the program to its end within its limits; none of its processes is left afterwards.

    Raises `NotStartedError` if it could not be confined or its interpreter did not start.
    """
    broker_socket = await BrokerSocket.open(Path(spec.socket), token=token, uids=frozenset({spec.uid}))
    try:
        async with _start_init(spec, broker_socket, token) as init:
            await _wait_ready(init)
            return await _run_program(spec, run, program, init, broker, output)
    finally:
        await broker_socket.close()


@asynccontextmanager
async def _start_init(spec: ConfinementSpec, broker_socket: BrokerSocket, token: str) -> AsyncGenerator[InitProcess]:
    """Start an init process with its interpreter; both have ended when the context exits."""
    (out, their_out), (err, their_err) = os.pipe(), os.pipe()
    command = ("-I", "-m", "timeloom.sandbox.remote.init", msgspec.json.encode(spec).decode())
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
    init = InitProcess(process, broker_socket, out, err)
    assert process.stdin is not None
    try:
        process.stdin.write(token.encode() + b"\n")
        process.stdin.close()
        yield init
    finally:
        init.send_signal(signal.SIGTERM)
        await asyncio.shield(init.wait_exit())


async def _wait_ready(init: InitProcess) -> None:
    if not await finishes_before(init.broker_socket.wait_ready(), init.wait_exit(), START_S):
        raise NotStartedError(_read_stderr(init) or f"no interpreter was ready within {START_S:g} s")


def _read_stderr(init: InitProcess) -> str:
    os.set_blocking(init.stderr, False)
    try:
        return os.read(init.stderr, _LAST_WORDS_BYTES).decode("utf-8", "replace").strip()
    except BlockingIOError:
        return ""


async def _run_program(
    spec: ConfinementSpec, run: RunFolder, program: Program, init: InitProcess, broker: Broker, output: OutputSink
) -> ProgramResult:
    with _open_memory_filesystems() as in_memory:
        tree = ProgramTree(init.process.pid, uid=spec.uid)
        watchdog = Watchdog(program.limits, tree, (run.work, run.out, *_also_writable()), in_memory=in_memory)
        watchdog.take_baseline()
        captured = CapturedOutput(program.limits.output_bytes, output)
        try:
            captured.start_reading("stdout", init.stdout)
            captured.start_reading("stderr", init.stderr)
            started = time.monotonic()
            await init.broker_socket.start_program(program, broker, workdir=spec.work, output_dir=spec.out)
            breach = await _wait_end(init, watchdog, captured, program.limits.wall_s)
            wall_s = time.monotonic() - started
            init.send_signal(signal.SIGTERM)
            await init.wait_exit()
            await captured.drain()
        finally:
            captured.close()
    status = await resolve_exit_status(init.process.returncode or 0, init.broker_socket)
    return build_result(status, run.out, watchdog, captured, wall_s, breach)


def _also_writable() -> tuple[Path, ...]:
    """Return the world-writable folders, if Landlock does not keep a program out of them."""
    return () if landlock.version() else tuple(folder for folder in _WORLD_WRITABLE if folder.is_dir())


@contextlib.contextmanager
def _open_memory_filesystems() -> Generator[tuple[int, ...]]:
    """Open descriptors of the in-memory file systems that a program can fill."""
    descriptors = (os.open(_IN_MEMORY, os.O_PATH | os.O_CLOEXEC),) if _IN_MEMORY.is_dir() else ()
    try:
        yield descriptors
    finally:
        for each in descriptors:
            os.close(each)


async def _wait_end(init: InitProcess, watchdog: Watchdog, captured: CapturedOutput, wall_s: float) -> Breach | None:
    """Wait for the end and return the breached limit, if any; a program that ran too long first gets SIGTERM."""
    breach = await wait_first_breach(
        init.wait_exit(), wait_timeout(wall_s), watchdog.wait_breach(), wait_output_breach(captured)
    )
    if breach is not None and breach.ending in GRACEFUL_ENDINGS:
        init.send_signal(signal.SIGUSR1)
        await wait_first_breach(init.wait_exit(), asyncio.sleep(GRACE_S))
    return breach
