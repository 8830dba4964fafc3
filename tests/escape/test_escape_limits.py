"""Limits: a program that takes disk, memory and processor time where those who count might not look."""

import shutil
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.escape.escape_harness import EscapeHarness
from timeloom.ports.sandbox import MIB, ExecutionLimits
from timeloom.testing.sandbox_contract.fixtures import WAIT_S

GROWTH = ExecutionLimits(wall_s=WAIT_S, growth_bytes=64 * MIB)
MEMORY = ExecutionLimits(wall_s=WAIT_S, memory_bytes=160 * MIB)

WITHOUT_ITS_FIRST_THREAD = """
import threading
threading.Thread(target=take).start()
libc.syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""


@contextmanager
def disk(stage: EscapeHarness, most_bytes: int) -> Generator[None]:
    """While this lasts no more than that of the disk is taken, as it itself sees."""
    before, taken, over = shutil.disk_usage(stage.outside).used, [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            taken.append(shutil.disk_usage(stage.outside).used - before)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
    assert max(taken) < most_bytes


def test_removed_files_that_are_mapped_are_counted(stage: EscapeHarness) -> None:
    """Without a descriptor, and with so little of them mapped that it tells nothing of their size."""
    with disk(stage, 2048 * MIB):
        done = stage.run(
            """
libc.mmap.restype = ctypes.c_void_p
for n in range(64):
    file = os.open("removed\\r", os.O_RDWR | os.O_CREAT)
    os.unlink("removed\\r")
    os.write(file, b"x" * 1_000_000)
    assert libc.mmap(None, ctypes.c_long(4096), 1, 1, file, ctypes.c_long(0)) not in (None, 2**64 - 1)
    for _ in range(31): os.write(file, b"x" * 1_000_000)
    os.close(file)
print("ESCAPED")
""",
            limits=GROWTH,
        )
    assert done.ran.ending == "growth", done.description


def test_a_removed_program_that_runs_is_counted(stage: EscapeHarness) -> None:
    """The executable of a running process stays on disk after its removal."""
    done = stage.run(
        """
import shutil, subprocess
for n in range(8):
    shutil.copy("/bin/sleep", "runs")
    with open("runs", "ab") as file: file.write(b"x" * 20_000_000)
    running = subprocess.Popen(["./runs", "60"])
    while b"sleep" in open(f"/proc/{running.pid}/comm", "rb").read(): time.sleep(0.001)
    os.unlink("runs")
time.sleep(5)
print("ESCAPED")
""",
        limits=GROWTH,
    )
    assert done.ran.ending == "growth", done.description


def test_files_are_not_sent_through_sockets(stage: EscapeHarness) -> None:
    stage.assert_contained("""
ours, theirs = socket.socketpair()
file = os.open("removed", os.O_RDWR | os.O_CREAT)
attempt("descriptor", lambda: socket.send_fds(ours, [b"x"], [file]))
attempt("many", lambda: system_call(307 if os.uname().machine == "x86_64" else 269, ours.fileno(), 0, 0, 0))
ours.sendall(b"words")
assert theirs.recv(9) == b"words"
""")


@pytest.mark.parametrize(
    ("limits", "take"),
    [
        (GROWTH, "kept.append(open('removed', 'wb', 0)); os.unlink('removed'); kept[-1].write(b'x' * 4_000_000)"),
        (MEMORY, "kept.append(bytearray(b'x' * 8_000_000))"),
    ],
)
def test_a_process_whose_first_thread_has_ended_is_looked_into(
    stage: EscapeHarness, limits: ExecutionLimits, take: str
) -> None:
    code = f"""
kept = []
def take():
    for _ in range(60):
        {take}
        time.sleep(0.01)
    time.sleep(1)
    os.write(1, b"ESCAPED")
    os._exit(0)
"""
    done = stage.run(code + WITHOUT_ITS_FIRST_THREAD, limits=limits)
    assert done.ran.ending == ("growth" if limits is GROWTH else "memory"), done.description


def test_shared_memory_that_nobody_maps_is_counted_or_not_given(stage: EscapeHarness) -> None:
    """Without a file, and by way of a device that gives the same."""
    done = stage.run(
        """
import mmap
kept = []
def take(file, flags):
    for _ in range(25):
        kept.append(mmap.mmap(file, 16 << 20, flags))
        for at in range(0, 16 << 20, 4096): kept[-1][at] = 1
        kept[-1].madvise(mmap.MADV_DONTNEED)
    time.sleep(1)
attempt("nameless", lambda: take(-1, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS))
attempt("zeros", lambda: take(os.open("/dev/zero", os.O_RDWR), mmap.MAP_SHARED))
print("tried all")
""",
        limits=MEMORY,
    )
    assert done.ran.ending == "memory" or "ESCAPED" not in done.description, done.description


def test_what_is_in_sockets_is_counted(stage: EscapeHarness) -> None:
    done = stage.run(
        """
def take():
    kept = []
    while len(kept) < 60:
        kept.append(socket.socketpair())
        for end in kept[-1]:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
            end.setblocking(False)
            try:
                while True: end.send(b"x" * 65536)
            except BlockingIOError: pass
    time.sleep(5)
    os._exit(0)
for _ in range(30):
    if os.fork() == 0: take()
time.sleep(8)
print("ESCAPED")
""",
        limits=MEMORY,
    )
    assert done.ran.ending == "memory", done.description


def test_nobody_is_spared_when_memory_runs_out(stage: EscapeHarness) -> None:
    """Less than what else runs there; how much less is up to the kind of sandbox."""
    stage.assert_contained("""
for name, value in (("oom_score_adj", b"-1"), ("oom_score_adj", b"-1000"), ("oom_adj", b"-1"), ("oom_adj", b"-17")):
    attempt(name, lambda: open(f"/proc/self/{name}", "r+b", 0).write(value))
assert int(open("/proc/self/oom_score_adj").read()) >= 800
""")


def test_processor_time_counts_where_nobody_waits_for_it(stage: EscapeHarness) -> None:
    """At least a part of it: where no group counts it, it is known by samples."""
    done = stage.run("""
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
reading, writing = os.pipe()
for _ in range(400):
    if os.fork() == 0:
        began = time.process_time()
        while time.process_time() - began < 0.005: pass
        os.write(writing, b"x")
        os._exit(0)
    os.read(reading, 1)
print(round(1000 * time.process_time()), flush=True)
""")
    own_ms = int(done.output.stdout)
    assert done.ran.used.cpu_ms - own_ms > 400, (own_ms, done.ran.used)


def test_files_that_the_kernel_keeps_in_memory_are_not_its_memory(stage: EscapeHarness) -> None:
    done = stage.run("for _ in range(200): open('large', 'ab').write(b'x' * 1_000_000)\n")
    assert done.ran.ending == "exited", done.description
    assert done.ran.used.peak_bytes < 100 * MIB


def test_those_who_count_are_not_held_up(stage: EscapeHarness) -> None:
    """The number of mappings exceeds the number that the watchdog reads."""
    code = """
import mmap
file = os.open("mapped", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 8192)
libc.mmap.restype = ctypes.c_void_p
def take():
    for n in range(30_000): libc.mmap(None, ctypes.c_long(4096), 1, 1, file, ctypes.c_long(n % 2 * 4096))
for _ in range(15):
    if os.fork() == 0:
        take()
        time.sleep(60)
take()
time.sleep(10)
print("ESCAPED")
"""
    started = time.monotonic()
    done = stage.run(code, limits=ExecutionLimits(wall_s=2 * WAIT_S))
    assert done.ran.ending == "growth", done.description
    assert time.monotonic() - started < 2 * WAIT_S
