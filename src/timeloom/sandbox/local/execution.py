"""Executes one program in a local worker, from its first line until its last process has ended."""

import asyncio
import time

from msgspec.structs import replace

from timeloom.ports.sandbox import Broker, OutputSink, Program, ProgramResult, SandboxUnavailableError
from timeloom.sandbox.captured_output import CapturedOutput
from timeloom.sandbox.exit_status import (
    GRACEFUL_ENDINGS,
    build_result,
    resolve_exit_status,
    wait_first_breach,
    wait_output_breach,
    wait_timeout,
)
from timeloom.sandbox.local.errors import disk_full_message
from timeloom.sandbox.local.pipes import discard_available
from timeloom.sandbox.local.worker import LocalWorker
from timeloom.sandbox.watchdog import Watchdog


async def execute_program(
    worker: LocalWorker, program: Program, broker: Broker, output: OutputSink, grace_s: float
) -> ProgramResult:
    """Run the program to its end within its limits; none of its processes is left afterwards."""
    assert worker.stdout is not None
    assert worker.stderr is not None
    await worker.apply_limits(program.limits)
    if program.inputs:
        await asyncio.to_thread(worker.resources.run.copy_inputs, program.inputs, worker.config.owner)
    for stream in (worker.stdout, worker.stderr):
        # Output of libraries while they were loaded is not output of the program.
        discard_available(stream)
    folders = (worker.resources.run.work, worker.resources.run.out)
    watchdog = Watchdog(
        program.limits, worker.tree(), folders, in_memory=worker.in_memory, group=worker.resources.cgroup
    )
    watchdog.take_baseline()
    captured = CapturedOutput(program.limits.output_bytes, output)
    try:
        captured.start_reading("stdout", worker.stdout)
        worker.stdout = None
        captured.start_reading("stderr", worker.stderr)
        worker.stderr = None
        started = time.monotonic()
        await _start_program(worker, program, broker)
        breach = await wait_first_breach(
            worker.wait_exit(),
            wait_timeout(program.limits.wall_s),
            watchdog.wait_breach(),
            wait_output_breach(captured),
        )
        if breach is not None and breach.ending in GRACEFUL_ENDINGS:
            worker.terminate()
            await wait_first_breach(worker.wait_exit(), asyncio.sleep(grace_s))
        wall_s = time.monotonic() - started
        await worker.kill()
        await captured.drain()
    finally:
        captured.close()
    status = await resolve_exit_status(worker.exit_code(), worker.resources.broker_socket)
    out = worker.resources.run.out
    result = build_result(status, out, watchdog, captured, wall_s, breach or watchdog.find_oom_breach())
    # The program itself cannot tell that the host disk is full, so add that here.
    return replace(result, detail=disk_full_message(out)) if result.exit_code and not result.detail else result


async def _start_program(worker: LocalWorker, program: Program, broker: Broker) -> None:
    try:
        await worker.resources.broker_socket.start_program(program, broker)
    except ConnectionError as error:
        raise SandboxUnavailableError("the isolated Python ended before its program began; try again") from error
