"""Executes one program in a local worker, from its first line until its last process has ended."""

import asyncio
import time

from msgspec.structs import replace

from timeloom.ports.sandbox import Broker, Output, Program, Ran, SandboxUnavailableError
from timeloom.sandbox.captured_output import Printed
from timeloom.sandbox.exit_status import PATIENT, exit_of, first, flood, how_it_ran, timeout
from timeloom.sandbox.local.errors import full_disk
from timeloom.sandbox.local.pipes import discard
from timeloom.sandbox.local.worker import Cell
from timeloom.sandbox.watchdog import Watchdog


async def execute(cell: Cell, program: Program, broker: Broker, output: Output, grace_s: float) -> Ran:
    """Run the program to its end within its limits; none of its processes is left afterwards."""
    assert cell.stdout is not None
    assert cell.stderr is not None
    await cell.limit_to(program.limits)
    if program.inputs:
        await asyncio.to_thread(cell.berth.run.put, program.inputs, cell.place.owner)
    for stream in (cell.stdout, cell.stderr):
        # Output of libraries while they were loaded is not output of the program.
        discard(stream)
    folders = (cell.berth.run.work, cell.berth.run.out)
    watchdog = Watchdog(program.limits, cell.tree(), folders, in_memory=cell.in_memory, group=cell.berth.group)
    watchdog.begin()
    printed = Printed(program.limits.output_bytes, output)
    try:
        printed.read("stdout", cell.stdout)
        cell.stdout = None
        printed.read("stderr", cell.stderr)
        cell.stderr = None
        started = time.monotonic()
        await _begin(cell, program, broker)
        breach = await first(cell.exited(), timeout(program.limits.wall_s), watchdog.breach(), flood(printed))
        if breach is not None and breach.ending in PATIENT:
            cell.ask_to_end()
            await first(cell.exited(), asyncio.sleep(grace_s))
        wall_s = time.monotonic() - started
        await cell.kill()
        await printed.drained()
    finally:
        printed.close()
    ended = await exit_of(cell.exit_code(), cell.berth.door)
    out = cell.berth.run.out
    ran = how_it_ran(ended, out, watchdog, printed, wall_s, breach or watchdog.of_kernel())
    # The program itself cannot tell that the host disk is full, so add that here.
    return replace(ran, detail=full_disk(out)) if ran.exit_code and not ran.detail else ran


async def _begin(cell: Cell, program: Program, broker: Broker) -> None:
    try:
        await cell.berth.door.start(program, broker)
    except ConnectionError as error:
        raise SandboxUnavailableError("the isolated Python ended before its program began; try again") from error
