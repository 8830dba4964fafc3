"""Bombs: a program that takes all it can get of processes, memory, disk and attention."""

import asyncio
import shutil
import time
from pathlib import Path

from tests.escape.escape_harness import EscapeHarness
from timeloom.ports.sandbox import MIB, ExecutionLimits
from timeloom.testing.sandbox_contract.ending import find_pids, sleeper_code
from timeloom.testing.sandbox_contract.fixtures import WAIT_S, program, run_program


def free_bytes() -> int:
    """The memory that the machine has to give."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def test_a_fork_bomb_goes_off_in_its_own_place(stage: EscapeHarness) -> None:
    """Another program runs while it does, which it would not if they shared a number of processes."""
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"

    async def both() -> tuple[str, str]:
        limits = ExecutionLimits(wall_s=2, processes=24)
        exploded, beside = await asyncio.gather(
            run_program(stage.sandbox, program(bomb, limits=limits)),
            run_program(stage.sandbox, "import os\nprint(os.wait()[1] if os.fork() else '', end='')\n"),
        )
        return exploded.ran.ending, beside.output.stdout

    ending, beside = stage.runner.run(both())
    assert ending in {"timeout", "cpu"}
    assert beside == "0"


def test_a_memory_bomb_does_not_reach_the_machine(stage: EscapeHarness) -> None:
    before = free_bytes()
    limits = ExecutionLimits(wall_s=WAIT_S, memory_bytes=256 * MIB)
    done = stage.run("kept = [os.fork() for _ in range(4)]\nwhile True: kept.append(b'x' * 1_000_000)\n", limits=limits)
    assert done.ran.ending == "memory" or "MemoryError" in done.ran.stderr_tail, done.description
    assert done.ran.used.peak_bytes < before


def test_memory_that_no_process_maps_is_counted_too(stage: EscapeHarness) -> None:
    """Files in memory are capped, and count with the rest."""
    limits = ExecutionLimits(wall_s=WAIT_S, memory_bytes=100 * MIB)
    done = stage.run(
        """
def fill(folder):
    for n in range(1000): open(f"{folder}/{n}", "wb").write(b"x" * 1_000_000)
for folder in ("/dev/shm", "/tmp"):
    attempt(folder, lambda: fill(folder))
time.sleep(1)
print("ESCAPED")
""",
        limits=limits,
    )
    assert "ESCAPED" not in done.output.stdout or done.ran.ending == "memory", done.description


def test_the_disk_is_not_filled(stage: EscapeHarness) -> None:
    before = shutil.disk_usage(stage.outside).free
    limits = ExecutionLimits(wall_s=WAIT_S, growth_bytes=50 * MIB)
    done = stage.run(
        """
for n in range(100000):
    with open(os.path.join(OUT_DIR if n % 2 else ".", str(n)), "wb") as file:
        libc.fallocate(file.fileno(), 0, ctypes.c_long(0), ctypes.c_long(4_000_000))
        file.write(b"x" * 1_000_000)
""",
        limits=limits,
    )
    assert done.ran.ending == "growth", done.description
    assert before - shutil.disk_usage(stage.outside).free < 2048 * MIB


def test_inodes_are_not_used_up(stage: EscapeHarness) -> None:
    for folder in ("/tmp", "/dev/shm", "/workspace/work"):
        done = stage.run(
            f"os.chdir({folder!r})\nfor n in range(10_000_000): open(str(n), 'w').close()\n",
            limits=ExecutionLimits(wall_s=WAIT_S, growth_files=2_000),
        )
        assert done.ran.ending == "growth", done.description


def test_a_flood_of_output_is_cut(stage: EscapeHarness) -> None:
    code = "while True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)\n"
    done = stage.run(code, limits=ExecutionLimits(wall_s=WAIT_S, output_bytes=300_000))
    assert done.ran.ending == "output", done.description[:200]
    assert len(done.output.stdout) + len(done.output.stderr) <= 300_000


def test_nothing_outlives_the_run(stage: EscapeHarness) -> None:
    """However it tries to get away: another session, no parent, signals ignored, streams closed."""
    mark = "sleeper-that-hides"
    deaf = """
import signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
"""
    done = stage.run(deaf + sleeper_code(mark))
    assert done.output.stdout == "begun\n", done.description
    assert find_pids(mark) == []


def test_signals_do_not_leave(stage: EscapeHarness) -> None:
    """Neither by number, nor to all, nor by way of a descriptor; we are still here, and so is the sandbox."""
    stage.assert_contained("""
import fcntl, signal
for pid in (os.getppid(), 1, 2, -1):
    if pid != os.getpid():
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
            try: os.kill(pid, number)
            except OSError as error: print(error)
attempt("group", lambda: os.killpg(1, 9) if os.getpgrp() != 1 else 1 / 0)
ours, theirs = socket.socketpair()
attempt("owner", lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, 400000))
""")
    assert "next" in stage.run("print('next')").output.stdout


def test_time_and_limits_hold_for_one_who_ignores_signals(stage: EscapeHarness) -> None:
    started = time.monotonic()
    code = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)\n"
    done = stage.run(code, limits=ExecutionLimits(wall_s=0.3))
    assert (done.ran.ending, done.ran.exit_code) == ("timeout", 137), done.description
    assert time.monotonic() - started < WAIT_S
