"""Executes one program in a container, from its first line until its last process has ended."""

import asyncio
import time

from timeloom.ports.sandbox import Broker, Output, Program, Ran
from timeloom.sandbox.captured_output import Printed
from timeloom.sandbox.docker.worker import ContainerCell
from timeloom.sandbox.exit_status import PATIENT, exit_of, first, flood, how_it_ran, timeout
from timeloom.sandbox.watchdog import Watchdog


async def execute(cell: ContainerCell, program: Program, broker: Broker, output: Output, grace_s: float) -> Ran:
    """Run the program to its end within its limits; none of its processes is left afterwards."""
    if program.inputs:
        await asyncio.to_thread(cell.run.put, program.inputs, cell.owner)
    folders = (cell.run.work, cell.run.out)
    watchdog = Watchdog(program.limits, cell.tree(), folders, in_memory=cell.in_memory, group=cell.group)
    watchdog.begin()
    printed = Printed(program.limits.output_bytes, output)
    try:
        cell.print_to(printed)
        started = time.monotonic()
        await cell.door.start(program, broker)
        breach = await first(cell.exited(), timeout(program.limits.wall_s), watchdog.breach(), flood(printed))
        if breach is not None and breach.ending in PATIENT:
            cell.ask_to_end()
            await first(cell.exited(), asyncio.sleep(grace_s))
        wall_s = time.monotonic() - started
        await cell.kill()
        await printed.drained()
    finally:
        printed.close()
    ended = await exit_of(cell.exit_code(), cell.door)
    return how_it_ran(ended, cell.run.out, watchdog, printed, wall_s, breach or watchdog.of_kernel())
