"""Unlinked open files and hidden processes are found although they conceal themselves."""

import codecs
import ctypes
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from timeloom.ports.sandbox import MIB, ExecutionLimits
from timeloom.sandbox.folders.disk_usage import measure_folders
from timeloom.sandbox.processes.cpu_time import MAX_SAMPLE_S, CpuTime, ProcessSample
from timeloom.sandbox.processes.process_tree import ProcessTree
from timeloom.sandbox.processes.procfs import TICKS_S, find_live_path
from timeloom.sandbox.processes.unlinked_files import MAPS_BYTES, UnlinkedFiles, find_unlinked_files
from timeloom.sandbox.watchdog import Watchdog

NOBODY = 65534
FILE_BYTES = 5_000_000
PR_SET_DUMPABLE = 4
EXIT = 60 if os.uname().machine == "x86_64" else 93

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p


def as_nobody(folder: Path, work: Callable[[], object]) -> str:
    """Return the result of the function, run in that folder by an unprivileged user."""
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    # Such a user may not be able to import anything.
    codecs.lookup("ascii")
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            _close_inherited(writing)
            os.chdir(folder)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            # The change of user has taken it away.
            libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
            os.write(writing, str(work()).encode())
        except BaseException as error:  # noqa: BLE001 - it is told on the other side
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        told = said.read()
    os.waitpid(child, 0)
    return told


def _close_inherited(kept: int) -> None:
    """Close what the test process has open, such as removed files with captured output, which would be found too."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


@contextmanager
def process(work: Callable[[], object], *, in_a_thread: bool = False) -> Generator[ProcessTree]:
    """A process that has done the work and stays; in a thread that is not its first one, which has ended."""
    reading, writing = os.pipe()

    def stay() -> None:
        os.write(writing, b"x")
        time.sleep(600)

    if (child := os.fork()) == 0:
        try:
            work()
            if in_a_thread:
                threading.Thread(target=stay).start()
                libc.syscall(EXIT, 0)
            stay()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"x"
        yield ProcessTree(child)
    finally:
        os.close(reading)
        for pid in ProcessTree(child).pids():
            os.kill(pid, signal.SIGKILL)
        os.waitpid(child, 0)


def removed() -> int:
    file = os.open("x", os.O_RDWR | os.O_CREAT)
    Path("x").unlink()
    os.write(file, b"x" * FILE_BYTES)
    os.fsync(file)
    return file


def mapped() -> None:
    """One page of a removed file, which is not open any more."""
    file = removed()
    libc.mmap(None, ctypes.c_long(4096), 1, 1, file, ctypes.c_long(0))
    os.close(file)


def held(tree: ProcessTree) -> UnlinkedFiles:
    return tree.find_unlinked(Path().stat().st_dev, (str(Path.cwd()),))


def test_removed_files_are_found_that_are_mapped_and_not_open(tmp_path: Path) -> None:
    """Root gets their size; other users only learn that there is one."""

    def look() -> object:
        with process(mapped) as tree:
            found = held(tree)
            elsewhere = tree.find_unlinked(Path().stat().st_dev, ("/workspace",))
        assert (elsewhere.bytes, elsewhere.unknown_files) == (0, 0)
        return (found.bytes >= FILE_BYTES, found.unknown_files, found.is_unreadable)

    with tempfile.TemporaryFile(dir=tmp_path) as of_the_test:
        of_the_test.write(b"x" * FILE_BYTES)
        os.fsync(of_the_test.fileno())
        assert as_nobody(tmp_path, look) == "(False, 1, False)"


def test_an_open_and_mapped_file_counts_once_with_its_size(tmp_path: Path) -> None:
    def both() -> None:
        libc.mmap(None, ctypes.c_long(4096), 1, 1, removed(), ctypes.c_long(0))

    def look() -> object:
        with process(both) as tree:
            found = held(tree)
        return (FILE_BYTES <= found.bytes < 2 * FILE_BYTES, found.unknown_files)

    assert as_nobody(tmp_path, look) == "(True, 0)"


def test_a_process_whose_first_thread_has_ended_hides_nothing(tmp_path: Path) -> None:
    kept: list[bytes] = []

    def take() -> None:
        removed()
        kept.append(b"x" * 50_000_000)

    def look() -> object:
        with process(take, in_a_thread=True) as tree:
            while (find_live_path(tree.root) or "").count("/") < 4:
                time.sleep(0.01)
            found = held(tree)
            memory = min(tree.measure().rss_bytes, tree.pss_bytes())
        return (found.bytes >= FILE_BYTES, found.is_unreadable, memory > 50_000_000)

    assert as_nobody(tmp_path, look) == "(True, False, True)"


def test_a_process_that_may_not_be_looked_into_passes_a_limit(tmp_path: Path) -> None:
    """Unless that was so before it began."""

    def look() -> object:
        reading, writing = os.pipe()

        def close() -> None:
            if os.fork() == 0:
                os.read(reading, 1)
                libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
                time.sleep(600)

        with process(close) as tree:
            watchdog = Watchdog(ExecutionLimits(), tree, (Path(),))
            watchdog.take_baseline()
            assert watchdog.find_breach() is None
            os.write(writing, b"x")
            while not (breach := watchdog.find_breach()):
                time.sleep(0.01)
            again = Watchdog(ExecutionLimits(), tree, (Path(),))
            again.take_baseline()
            return (breach.ending, again.find_breach(), tree.pss_bytes() > 0)

    told = as_nobody(tmp_path, look)
    assert told == "('growth', None, True)"


def test_more_mappings_than_are_read_pass_a_limit(tmp_path: Path) -> None:
    def many() -> None:
        file = removed()
        for at in range(40_000):
            libc.mmap(None, ctypes.c_long(4096), 1, 1, file, ctypes.c_long(at % 2 * 4096))

    def look() -> object:
        with process(many) as tree:
            listed = len(Path(f"/proc/{tree.root}/maps").read_bytes())
            folders, device = (str(Path.cwd()),), Path().stat().st_dev
            few, more = [tree.root] * (MAPS_BYTES // listed), [tree.root] * (MAPS_BYTES // listed + 2)
            return (
                find_unlinked_files(few, device, folders).has_too_many_mappings,
                find_unlinked_files(more, device, folders).has_too_many_mappings,
            )

    assert as_nobody(tmp_path, look) == "(False, True)"


def test_a_folder_that_can_be_listed_and_not_entered_passes_a_limit(tmp_path: Path) -> None:
    def look() -> object:
        Path("closed").mkdir()
        Path("closed/x").write_bytes(b"x" * FILE_BYTES)
        seen = measure_folders([Path()], 100)
        found: list[bool] = [seen.is_unreadable]
        for mode in (0o400, 0o100, 0o000):
            Path("closed").chmod(mode)
            found.append(measure_folders([Path()], 100).is_unreadable)
        return found

    assert as_nobody(tmp_path, look) == "[False, True, True, True]"


def test_sockets_count_as_memory_where_no_group_counts(tmp_path: Path) -> None:
    with process(lambda: None) as tree:
        watchdog = Watchdog(ExecutionLimits(), tree, (tmp_path,))
        watchdog.take_baseline()
        before = watchdog.peak_bytes
        pairs = [socket.socketpair() for _ in range(100)]
        assert watchdog.find_breach() is None
        assert watchdog.peak_bytes > before + 100 * 200_000
        few = Watchdog(ExecutionLimits(memory_bytes=before + MIB), tree, (tmp_path,))
        few.take_baseline()
        assert few.find_breach() is None, "what was there before is not the program's"
        for end in (end for pair in pairs for end in pair):
            end.close()
    assert tree.count_sockets() == 0


def test_one_that_ran_and_is_gone_at_the_next_look_stands_for_those_that_nobody_saw() -> None:
    """On a machine on which others want to run too it stands for less; never for more than the time between looks."""
    spent = CpuTime()
    spent.add_samples([], 10.0)
    first = spent.add_samples([ProcessSample((7, "1"), 0, is_running=True)], 10.1)
    gone = spent.add_samples([], 10.2)
    assert first == 0.0
    assert 0.0 < gone <= 0.1 + 1e-9
    slow = spent.add_samples([ProcessSample((8, "2"), 0, is_running=True)], 99.0)
    assert slow == gone
    assert spent.add_samples([], 99.1) - gone <= MAX_SAMPLE_S


def test_one_that_stays_or_waits_counts_with_what_it_has_spent() -> None:
    spent = CpuTime()
    spent.add_samples([], 10.0)
    spent.add_samples([ProcessSample((7, "1"), 1, is_running=True), ProcessSample((8, "1"), 5, is_running=False)], 10.1)
    stayed = spent.add_samples(
        [ProcessSample((7, "1"), 3, is_running=True), ProcessSample((7, "2"), 2, is_running=False)], 10.2
    )
    assert stayed * TICKS_S == 3 + 5 + 2
    assert spent.add_samples([], 10.3) == stayed
