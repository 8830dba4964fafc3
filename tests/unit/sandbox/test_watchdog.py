"""The watchdog measures a process tree's usage and output, and names the exceeded limit."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from timeloom.ports.sandbox import MIB, ExecutionLimits
from timeloom.sandbox.captured_output import TAIL_BYTES, CapturedOutput
from timeloom.sandbox.processes.cgroup import (
    Cgroup,
    CgroupHierarchy,
    create_cgroup,
    find_hierarchies,
    remove_dead_cgroups,
)
from timeloom.sandbox.processes.process_tree import ProcessTree, children_by_parent
from timeloom.sandbox.watchdog import Watchdog


@contextmanager
def tree(code: str) -> Generator[ProcessTree]:
    """The processes of a program that has said `on`."""
    program = f"import os, sys, time, signal\n{code}\nprint('on', flush=True)\ntime.sleep(600)\n"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "on\n"
            yield ProcessTree(process.pid)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.01)


def test_a_tree_is_a_process_and_all_that_descend_from_it() -> None:
    with tree("if os.fork() == 0: [os.fork(), time.sleep(600)]") as processes:
        until(lambda: len(processes.pids()) == 3)
        assert processes.measure().processes == 3
        assert processes.pids()[0] == processes.root
        children = children_by_parent()
        found = [processes.root]
        for pid in found:
            found.extend(children(pid))
        assert sorted(found) == sorted(processes.pids())
    assert processes.pids() == []
    assert processes.measure().rss_bytes == 0


def test_shared_memory_counts_once_where_it_is_counted_exactly() -> None:
    with tree("kept = b'x' * 50_000_000\nfor _ in range(3): os.fork() or time.sleep(600)") as processes:
        until(lambda: processes.measure().processes == 4)
        assert processes.measure().rss_bytes > 4 * 50_000_000
        assert 50_000_000 < processes.pss_bytes() < 2 * 50_000_000


def test_processor_time_counts_those_that_are_gone() -> None:
    code = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.process_time() < 0.5: pass
    os._exit(0)
"""
    with tree(code) as processes:
        seen = [processes.measure().cpu_s]
        while processes.measure().processes > 1:
            seen.append(processes.measure().cpu_s)
            time.sleep(0.01)
        assert seen == sorted(seen)
        assert processes.measure().cpu_s >= 0.3


def test_files_without_a_name_are_found(tmp_path: Path) -> None:
    code = f"""
os.chdir({str(tmp_path)!r})
kept = open("x", "wb")
os.unlink("x")
kept.write(b"x" * 5_000_000)
kept.flush()
"""
    with tree(code) as processes:
        os.sync()
        assert processes.find_unlinked(tmp_path.stat().st_dev, ()).bytes >= 5_000_000
        assert processes.find_unlinked(-1, ()).bytes == 0


def watching(processes: ProcessTree, folder: Path, limits: ExecutionLimits) -> Watchdog:
    watchdog = Watchdog(limits, processes, (folder,))
    watchdog.take_baseline()
    return watchdog


def test_a_watchdog_says_which_limit_is_passed_and_by_how_much(tmp_path: Path) -> None:
    with tree("kept = b'x' * 60_000_000") as processes:
        assert watching(processes, tmp_path, ExecutionLimits()).find_breach() is None
        memory = watching(processes, tmp_path, ExecutionLimits(memory_bytes=40 * MIB)).find_breach()
        assert memory is not None
        assert (memory.ending, memory.detail.endswith("of 40 MiB")) == ("memory", True)
        watchdog = watching(processes, tmp_path, ExecutionLimits(growth_files=3, growth_bytes=MIB))
        (tmp_path / "large").write_bytes(b"x" * 3_000_000)
        large = watchdog.find_breach()
        assert large is not None
        assert "3 MiB into its folders, of 1 MiB" in large.detail
        assert watching(processes, tmp_path, ExecutionLimits(growth_bytes=MIB)).find_breach() is None, (
            "what was there is not growth"
        )
        watchdog = watching(processes, tmp_path, ExecutionLimits(growth_files=3))
        for n in range(5):
            (tmp_path / str(n)).touch()
        many = watchdog.find_breach()
        assert many is not None
        assert many.detail.startswith("made ")


def test_a_watchdog_counts_the_processor_from_its_beginning(tmp_path: Path) -> None:
    with tree("os.fork() or [None for _ in iter(int, 1)]") as processes:
        watchdog = watching(processes, tmp_path, ExecutionLimits(cpu_s=0.2))
        breach = asyncio.run(watchdog.wait_breach())
        assert breach.ending == "cpu"
        assert watchdog.measure_usage(1.5).cpu_ms >= 200
        assert watchdog.measure_usage(1.5).wall_ms == 1500


@pytest.fixture(name="pipe")
def _pipe() -> tuple[int, int]:
    return os.pipe()


def test_characters_that_come_apart_are_heard_whole(pipe: tuple[int, int]) -> None:
    heard: list[str] = []

    async def hear() -> str:
        printed = CapturedOutput(1000, lambda _stream, text: heard.append(text))
        printed.start_reading("stdout", pipe[0])
        for byte in "aä€😀".encode():
            os.write(pipe[1], bytes([byte]))
            await asyncio.sleep(0.001)
        os.write(pipe[1], b"\xe2\x82")
        os.close(pipe[1])
        await printed.drain()
        return printed.tail("stdout")

    assert asyncio.run(hear()) == "aä€😀�"
    assert "".join(heard) == "aä€😀�"


def test_a_tail_begins_with_a_line(pipe: tuple[int, int]) -> None:
    async def hear() -> str:
        printed = CapturedOutput(10**6, lambda _stream, _text: None)
        printed.start_reading("stderr", pipe[0])
        os.write(pipe[1], b"".join(b"line %d\n" % n for n in range(4000)))
        os.close(pipe[1])
        await printed.drain()
        return printed.tail("stderr")

    kept = asyncio.run(hear())
    assert TAIL_BYTES - 100 < len(kept) < TAIL_BYTES
    assert kept.startswith("line ")
    assert kept.endswith("line 3999\n")


def test_a_stream_that_somebody_keeps_open_is_not_waited_for(pipe: tuple[int, int]) -> None:
    async def hear() -> str:
        printed = CapturedOutput(5, lambda _stream, _text: None)
        printed.start_reading("stdout", pipe[0])
        os.write(pipe[1], b"too much")
        told = await printed.wait_over_limit()
        await printed.drain()
        return told

    assert asyncio.run(hear()) == "printed 8 bytes or more, of 5"
    os.close(pipe[1])


def machine(folder: Path, own: str, mounts: str) -> Path:
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(own, encoding="ascii")
    (folder / "proc/self/mounts").write_text(mounts, encoding="ascii")
    return folder


def test_groups_of_the_first_version_are_made_below_our_own(tmp_path: Path) -> None:
    system = machine(
        tmp_path,
        "3:memory:/a/b\n2:pids:/\n1:cpu,cpuacct:/\n",
        "cgroup /cg/memory cgroup rw,memory 0 0\ncgroup /cg/pids cgroup rw,pids 0 0\ntmpfs /tmp tmpfs rw 0 0\n"
        "cgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup /cg/devices cgroup rw,devices 0 0\n",
    )
    (tmp_path / "cg/memory/a/b").mkdir(parents=True)
    (tmp_path / "cg/pids").mkdir(parents=True)
    (tmp_path / "cg/cpu").mkdir(parents=True)
    places = find_hierarchies(system)
    assert places == (
        CgroupHierarchy(tmp_path / "cg/memory/a/b", 1, ("memory",), tmp_path / "cg/memory"),
        CgroupHierarchy(tmp_path / "cg/pids", 1, ("pids",), tmp_path / "cg/pids"),
        CgroupHierarchy(tmp_path / "cg/cpu", 1, ("cpuacct",), tmp_path / "cg/cpu"),
    )


def test_groups_of_the_second_version_are_made_beside_our_own(tmp_path: Path) -> None:
    mounts = "cgroup2 /cg cgroup2 rw 0 0\n"
    system = machine(tmp_path, "0::/user.slice/app.scope\n", mounts)
    (tmp_path / "cg/user.slice/app.scope").mkdir(parents=True)
    (tmp_path / "cg/user.slice/cgroup.subtree_control").write_text("cpu memory pids\n", encoding="ascii")
    assert find_hierarchies(system) == (
        CgroupHierarchy(tmp_path / "cg/user.slice", 2, ("memory", "pids"), tmp_path / "cg"),
    )
    (tmp_path / "cg/user.slice/cgroup.subtree_control").write_text("cpu\n", encoding="ascii")
    assert find_hierarchies(system) == ()


def test_a_machine_without_groups_has_none(tmp_path: Path) -> None:
    assert find_hierarchies(tmp_path) == ()
    assert create_cgroup((), "name", ExecutionLimits()) is None
    assert create_cgroup((CgroupHierarchy(tmp_path / "none", 2, ("memory",)),), "name", ExecutionLimits()) is None


@pytest.mark.parametrize(
    ("version", "files"),
    [
        (
            1,
            {
                "memory.oom_control": "under_oom 0\noom_kill 2\n",
                "memory.stat": "cache 900\nrss 9\ntotal_cache 900\ntotal_rss 3000\ntotal_shmem 96\n",
                "cpuacct.usage": "2500000000\n",
            },
        ),
        (
            2,
            {
                "memory.events": "oom 3\noom_kill 2\n",
                "memory.stat": "anon 3000\nfile 900\nshmem 96\n",
                "cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
            },
        ),
    ],
)
def test_a_group_says_whether_memory_ran_out_and_what_it_uses(
    version: int, files: dict[str, str], tmp_path: Path
) -> None:
    group = Cgroup(((CgroupHierarchy(tmp_path, version, ("memory", "cpuacct")), tmp_path),))
    assert (group.was_oom_killed(), group.memory_bytes(), group.cpu_s()) == (False, None, None)
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    assert (group.was_oom_killed(), group.memory_bytes(), group.cpu_s()) == (True, 3096, 2.5)
    assert group.counts_memory


def test_a_group_that_limits_no_memory_does_not_count_it(tmp_path: Path) -> None:
    group = Cgroup(((CgroupHierarchy(tmp_path, 1, ("pids",)), tmp_path),))
    assert (group.counts_memory, group.memory_bytes(), group.cpu_s()) == (False, None, None)


def test_a_process_is_not_taken_for_enclosed_when_its_group_is_gone(tmp_path: Path) -> None:
    group = Cgroup(((CgroupHierarchy(tmp_path, 1, ("pids",)), tmp_path / "gone"),))
    with pytest.raises(FileNotFoundError):
        group.add_process(os.getpid())


def test_groups_that_somebody_left_are_removed(tmp_path: Path) -> None:
    """Also where they were made in another group; not those of another namespace, whose processes we do not know."""
    namespace = f"pid{Path('/proc/self/ns/pid').stat().st_ino}"
    place = (CgroupHierarchy(tmp_path / "one", 1, (), tmp_path),)
    (tmp_path / "one").mkdir()
    ours = create_cgroup(place, "ours", ExecutionLimits())
    assert ours is not None
    for name in (
        f"one/timeloom-{namespace}.{os.getpid()}.1-an-earlier-process-of-this-number",
        f"two/three/timeloom-{namespace}.4194305.17-somebody",
        f"timeloom-{namespace}.4194305.17-somebody",
        "timeloom-pid1.4194305.17-elsewhere",
        "timeloom.slice",
        "timeloom-named-by-others",
    ):
        (tmp_path / name).mkdir(parents=True)
    remove_dead_cgroups(place)
    left = [path.name.rpartition("-")[2] for path in tmp_path.rglob("timeloom*")]
    assert sorted(left) == ["elsewhere", "others", "ours", "timeloom.slice"]
