"""Checks that a program which exceeds a limit gets an error or is ended with the name of the limit."""

from timeloom.ports.sandbox import MIB, ExecutionLimits
from timeloom.testing.sandbox_contract.fixtures import WAIT_S, Open, program, run_program, scoped_sandbox


async def who_takes_too_long_is_asked_to_end_and_then_ended(open_sandbox: Open) -> None:
    """The program gets SIGTERM first, so that it can save files, and is killed afterwards."""
    code = """
import os, signal, time
def note(*_):
    open(os.path.join(OUT_DIR, "asked"), "w").write("yes")
signal.signal(signal.SIGTERM, note)
while True: time.sleep(0.01)
"""
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, program(code, limits=ExecutionLimits(wall_s=0.5)))
        assert done.ran.ending == "timeout", done.description
        assert done.files == {"asked": b"yes"}
        assert done.ran.used.wall_ms >= 500
        assert done.ran.detail


async def who_computes_too_long_is_ended(open_sandbox: Open) -> None:
    """The CPU time of all processes counts together."""
    code = "import os\nos.fork()\nwhile True: pass\n"
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, program(code, limits=ExecutionLimits(wall_s=WAIT_S, cpu_s=0.5)))
        assert done.ran.ending == "cpu", done.description
        assert done.ran.used.cpu_ms >= 500


async def who_takes_too_much_memory_is_ended_or_refused(open_sandbox: Open) -> None:
    """The sandbox ends the program, or the program gets a `MemoryError`."""
    code = "kept = []\nwhile True: kept.append(b'x' * 4_000_000)\n"
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, program(code, limits=ExecutionLimits(wall_s=WAIT_S, memory_bytes=200 * MIB)))
        assert done.ran.ending == "memory" or "MemoryError" in done.ran.stderr_tail, done.description
        assert done.ran.used.peak_bytes < 2 * 1024 * MIB


async def many_processes_share_one_limit_of_memory(open_sandbox: Open) -> None:
    """Each process is below the limit, but their sum exceeds it."""
    code = """
import os, time
for n in range(6):
    if os.fork() == 0:
        kept = b"x" * 60_000_000
        time.sleep(60)
time.sleep(60)
"""
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, program(code, limits=ExecutionLimits(wall_s=WAIT_S, memory_bytes=200 * MIB)))
        assert done.ran.ending == "memory", done.description
        assert "200 MiB" in done.ran.detail


async def who_prints_too_much_is_ended(open_sandbox: Open) -> None:
    """The recorded output stays below the limit."""
    async with scoped_sandbox(open_sandbox) as sandbox:
        code = "while True: print('flood' * 1000)\n"
        done = await run_program(sandbox, program(code, limits=ExecutionLimits(wall_s=WAIT_S, output_bytes=MIB)))
        assert done.ran.ending == "output", done.description
        assert len(done.output.stdout) <= MIB


async def who_writes_too_much_is_ended(open_sandbox: Open) -> None:
    """Holds for many files, and for open files that were unlinked."""
    seen = """
import os
for n in range(10000): open(os.path.join(OUT_DIR, str(n)), "wb").write(b"x" * 1_000_000)
"""
    hidden = """
import os
kept = []
for n in range(10000):
    kept.append(open("hidden", "wb"))
    os.unlink("hidden")
    for _ in range(8): kept[-1].write(b"x" * 1_000_000)
"""
    async with scoped_sandbox(open_sandbox) as sandbox:
        for code in (seen, hidden):
            done = await run_program(
                sandbox, program(code, limits=ExecutionLimits(wall_s=WAIT_S, growth_bytes=64 * MIB))
            )
            assert done.ran.ending == "growth", done.description


async def who_makes_too_many_files_is_ended(open_sandbox: Open) -> None:
    """Holds for files in one folder and for nested folders."""
    flat = "for n in range(100_000): open(str(n), 'w').close()\n"
    deep = "import os\nfor n in range(100_000):\n    os.mkdir('d')\n    os.chdir('d')\n"
    async with scoped_sandbox(open_sandbox) as sandbox:
        for code in (flat, deep):
            done = await run_program(sandbox, program(code, limits=ExecutionLimits(wall_s=WAIT_S, growth_files=500)))
            assert done.ran.ending == "growth", done.description


async def files_processes_and_descriptors_are_refused_beyond_their_number(open_sandbox: Open) -> None:
    """The program gets an `OSError`, which it can handle."""
    code = """
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def most(what, number):
    for n in range(number):
        try: what(n)
        except OSError: return "refused"
    return "taken"
print(most(lambda n: open("large", "ab").write(b"x" * 1_000_000), 20))
os.remove("large")
kept = []
print(most(lambda n: kept.append(os.open("/dev/null", os.O_RDONLY)), 200))
print(most(lambda n: os.fork() or signal.pause(), 100))
"""
    limits = ExecutionLimits(wall_s=WAIT_S, file_bytes=8 * MIB, open_files=64, processes=16)
    async with scoped_sandbox(open_sandbox) as sandbox:
        done = await run_program(sandbox, program(code, limits=limits))
        assert done.output.stdout == "refused\nrefused\nrefused\n", done.description
