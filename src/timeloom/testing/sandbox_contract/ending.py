"""Checks that no process of a run remains after it has ended, was cancelled or its sandbox closed."""

import asyncio
from pathlib import Path

from timeloom.ports.sandbox import ExecutionLimits
from timeloom.testing.sandbox_contract.fixtures import (
    WAIT_S,
    Open,
    cancel_run,
    program,
    run_program,
    scoped_sandbox,
    start_program,
)


def find_pids(mark: str) -> list[int]:
    """Return the pids of processes of this machine with the mark in their arguments; this process has none."""
    found: list[int] = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and mark.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def sleeper_code(mark: str) -> str:
    """Return code that starts a detached process with the mark in its arguments and prints `begun`."""
    return f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        # In two parts, so that the mark stands in the arguments of the process alone.
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", "{mark[:8]}" + "{mark[8:]}"])
    os._exit(0)
time.sleep(0.3)
print("begun")
"""


async def a_cancelled_run_leaves_nothing(open_sandbox: Open) -> None:
    """All its processes have ended before the cancellation is raised."""
    mark = "sleeper-of-a-cancelled-run"
    async with scoped_sandbox(open_sandbox) as sandbox:
        code = sleeper_code(mark) + "time.sleep(600)\n"
        task, _ = await start_program(sandbox, program(code, limits=ExecutionLimits(wall_s=WAIT_S)), "begun")
        assert await asyncio.to_thread(find_pids, mark), "the check must see the process while it runs"
        await cancel_run(task)
        assert not await asyncio.to_thread(find_pids, mark)
        assert (await run_program(sandbox, "print('next')")).output.stdout == "next\n"


async def closing_ends_what_runs(open_sandbox: Open) -> None:
    """Closing ends all programs; a caller that waits for one gets a result or an error."""
    mark = "sleeper-of-a-closed-sandbox"
    sandbox = await open_sandbox()
    code = sleeper_code(mark) + "time.sleep(600)\n"
    task, _ = await start_program(sandbox, program(code, limits=ExecutionLimits(wall_s=WAIT_S)), "begun")
    await sandbox.close()
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(task, return_exceptions=True)
    assert not await asyncio.to_thread(find_pids, mark)


async def a_program_s_children_end_with_it(open_sandbox: Open) -> None:
    """Also child processes that have left its session and have another parent."""
    mark = "sleeper-that-outlives-a-run"
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, sleeper_code(mark))
        assert (done.ran.ending, done.output.stdout) == ("exited", "begun\n"), done.description
        assert not await asyncio.to_thread(find_pids, mark)
