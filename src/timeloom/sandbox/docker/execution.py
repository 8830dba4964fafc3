"""Executes one program in a container, from its first line until its last process has ended."""

import asyncio
import time

from timeloom.ports.sandbox import Broker, OutputSink, Program, ProgramResult
from timeloom.sandbox.captured_output import CapturedOutput
from timeloom.sandbox.docker.worker import DockerWorker
from timeloom.sandbox.exit_status import (
    GRACEFUL_ENDINGS,
    build_result,
    resolve_exit_status,
    wait_first_breach,
    wait_output_breach,
    wait_timeout,
)
from timeloom.sandbox.watchdog import Watchdog


async def execute_program(
    worker: DockerWorker, program: Program, broker: Broker, output: OutputSink, grace_s: float
) -> ProgramResult:
    """Run the program to its end within its limits; none of its processes is left afterwards."""
    if program.inputs:
        await asyncio.to_thread(worker.run.copy_inputs, program.inputs, worker.owner)
    folders = (worker.run.work, worker.run.out)
    watchdog = Watchdog(program.limits, worker.tree(), folders, in_memory=worker.in_memory, group=worker.cgroup)
    watchdog.take_baseline()
    captured = CapturedOutput(program.limits.output_bytes, output)
    try:
        worker.capture_output(captured)
        started = time.monotonic()
        await worker.broker_socket.start_program(program, broker)
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
    status = await resolve_exit_status(worker.exit_code(), worker.broker_socket)
    return build_result(status, worker.run.out, watchdog, captured, wall_s, breach or watchdog.find_oom_breach())
