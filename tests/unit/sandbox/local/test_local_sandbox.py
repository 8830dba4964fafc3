"""The local sandbox: interpreters that wait, what programs see of the machine, and what executions leave behind."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import TypeVar

import pytest

from timeloom.ports.sandbox import MIB, ExecutionLimits, SandboxUnavailableError
from timeloom.sandbox.local import LocalSandbox, LocalSettings
from timeloom.sandbox.local.bwrap_args import resource_limits
from timeloom.sandbox.local.interpreter import find_interpreter
from timeloom.sandbox.local.orphans import find_orphans, kill_orphans, kill_starting
from timeloom.sandbox.local.pipes import Pipes
from timeloom.sandbox.processes.cgroup import find_hierarchies
from timeloom.sandbox.processes.process_tree import ProcessTree
from timeloom.testing.sandbox_contract.fixtures import (
    WAIT_S,
    OutputRecorder,
    TableBroker,
    program,
    run_program,
    start_program,
)

T = TypeVar("T")

FONT_LIBRARY = {
    "__init__.py": "import os\ndef get_cachedir(): return os.environ['MPLCONFIGDIR']\n",
    "font_manager.py": """
import os, matplotlib
folder = matplotlib.get_cachedir()
made = os.path.join(folder, "fontlist-v1.json")
slow = not os.path.exists(made)
if slow:
    os.makedirs(folder, exist_ok=True)
    open(made, "w").write("fonts")
""",
    "pyplot.py": "import matplotlib.font_manager\n",
}


def run(work: Coroutine[None, None, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(2 * WAIT_S):
            return await work

    return asyncio.run(bounded())


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> list[str]:
    """Found by their parent: the lists of a process's threads change when a thread ends."""
    return sorted(pid.name for pid in Path("/proc").glob("[0-9]*") if parent(pid) == os.getpid())


def parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def traces(folder: Path) -> tuple[int, int, int, int]:
    """Processes, mounts, descriptors and files."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
    return len(children()), mounts.count(str(folder)), descriptors(), len(list(folder.rglob("*")))


def groups() -> list[str]:
    """Control groups that this process has made."""
    return [folder.name for place in find_hierarchies() for folder in place.folder.glob(f"timeloom-*.{os.getpid()}.*")]


def held() -> tuple[int, list[str], list[str]]:
    """Descriptors, processes and control groups of this process; a sandbox of other tests may have some too."""
    return descriptors(), children(), sorted(groups())


def until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.01)


def kill(pid: int) -> None:
    """The process is dead afterwards, and still ours to ask for."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture(name="warm")
def _warm(tmp_path: Path) -> LocalSettings:
    return LocalSettings(folder=tmp_path / "runs", warm=1, preload=("json", "no_such_library"))


def test_an_interpreter_that_waited_has_its_libraries_and_serves_one_program(warm: LocalSettings) -> None:
    async def twice() -> list[str]:
        sandbox = LocalSandbox(warm)
        said: list[str] = []
        for _ in range(2):
            await sandbox.warm()
            waiting = set(children()) - others
            done = await run_program(
                sandbox, "import sys\nprint('json' in sys.modules, hasattr(sys, 'seen'))\nsys.seen = 1\n"
            )
            assert not waiting & set(children()), "who has served is gone"
            said.append(done.output.stdout + done.output.stderr)
        await sandbox.close()
        return said

    # A sandbox of other tests may be open in this process.
    others = set(children())
    assert run(twice()) == ["True False\n"] * 2
    assert set(children()) == others


@pytest.mark.parametrize("cgroups", [True, False])
def test_a_program_cannot_write_to_proc_but_to_its_own_files_there(tmp_path: Path, cgroups: bool) -> None:
    code = """
import os
for name in ("oom_score_adj", "oom_adj", "task/%d/comm" % os.getpid(), "mem", "clear_refs"):
    try:
        open(f"/proc/self/{name}", "r+b", 0).write(b"0")
        print("wrote", name)
    except OSError:
        pass
own = open("own", "w")
print(open("/proc/self/oom_score_adj").read(), open(f"/proc/self/fd/{own.fileno()}", "w").write("again"))
"""

    async def once() -> str:
        sandbox = LocalSandbox(LocalSettings(folder=tmp_path / "runs", warm=0, cgroups=cgroups))
        done = await run_program(sandbox, code)
        await sandbox.close()
        return done.output.stdout + done.output.stderr

    assert run(once()) == "1000\n 5\n"


def test_an_interpreter_that_waited_takes_the_limits_of_its_program(warm: LocalSettings) -> None:
    limits = ExecutionLimits(wall_s=WAIT_S, memory_bytes=300 * MIB, processes=7, open_files=33, file_bytes=5 * MIB)
    code = """
import resource
for name in ("AS", "NPROC", "NOFILE", "FSIZE", "CORE", "CPU"):
    print(name, *resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
"""

    async def once() -> str:
        sandbox = LocalSandbox(warm)
        await sandbox.warm()
        done = await run_program(sandbox, program(code, limits=limits))
        await sandbox.close()
        return done.output.stdout

    values = dict(line.split(" ", 1) for line in run(once()).splitlines())
    assert values["NPROC"] == "8 8"
    assert values["NOFILE"] == "33 33"
    assert values["FSIZE"] == f"{5 * MIB} {5 * MIB}"
    assert values["CORE"] == "0 0"
    assert int(values["AS"].split()[0]) in resource_limits(limits).values()


def test_bubblewrap_has_fewer_mounts_than_we_where_it_has_its_own(warm: LocalSettings) -> None:
    def kinds(process: str) -> set[str]:
        mounts = Path(f"/proc/{process}/mounts").read_text(encoding="utf-8").splitlines()
        return {line.split(" ")[2] for line in mounts}

    async def of_one_that_waits() -> set[str]:
        sandbox = LocalSandbox(warm)
        await sandbox.warm()
        (pid,) = set(children()) - others
        found = kinds(pid)
        await sandbox.close()
        return found

    others, before = set(children()), kinds("self")
    seen = run(of_one_that_waits())
    assert kinds("self") == before >= {"sysfs"}
    assert ("sysfs" in seen) == (os.geteuid() != 0)


def test_one_that_died_while_it_waited_is_not_used(warm: LocalSettings) -> None:
    async def once() -> str:
        sandbox = LocalSandbox(warm)
        await sandbox.warm()
        for pid in children():
            kill(int(pid))
        done = await run_program(sandbox, "print('alive')")
        await sandbox.close()
        return done.output.stdout

    assert run(once()) == "alive\n"


def test_a_list_of_fonts_is_made_once_and_given_to_all(tmp_path: Path) -> None:
    """The library is slow on first use and caches its result in a folder of its user."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (packages / "matplotlib").mkdir()
    for name, text in FONT_LIBRARY.items():
        (packages / "matplotlib" / name).write_text(text, encoding="ascii")
    settings = LocalSettings(
        folder=tmp_path / "runs", python=tmp_path / "env/bin/python", warm=1, preload=("matplotlib",)
    )
    code = "import matplotlib.font_manager as fonts, sys\nprint(fonts.slow, sys.prefix)\n"

    async def twice() -> list[str]:
        sandbox = LocalSandbox(settings)
        await sandbox.warm()
        said = [(await run_program(sandbox, code)).output.stdout for _ in range(2)]
        await sandbox.close()
        return said

    assert run(twice()) == [f"False {tmp_path / 'env'}\n"] * 2


def test_executions_in_a_row_leave_nothing_behind(tmp_path: Path) -> None:
    """No process, mount, descriptor or file, whether they end well or not."""

    async def many() -> None:
        sandbox = LocalSandbox(LocalSettings(folder=tmp_path / "runs", warm=0))
        await run_program(sandbox, "print(1)")
        before = traces(tmp_path)
        for code in ["print(1)", "1 / 0", "open('x', 'w').write('y')", "import os; os.fork()"] * 5:
            await run_program(sandbox, code)
        task, _ = await start_program(sandbox, program("print('on')\nimport time\ntime.sleep(600)\n"), "on")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert traces(tmp_path) == before
        await sandbox.close()

    open_before = descriptors()
    run(many())
    assert descriptors() == open_before
    assert list((tmp_path / "runs").iterdir()) == []


def test_whoever_is_cancelled_while_a_sandbox_starts_leaves_nothing(tmp_path: Path) -> None:
    async def many() -> None:
        sandbox = LocalSandbox(LocalSettings(folder=tmp_path / "runs", warm=0))
        await sandbox.check()
        before = (len(children()), descriptors())
        for n in range(20):
            task = asyncio.create_task(run_program(sandbox, "import time\ntime.sleep(600)\n"))
            await asyncio.sleep(n * 0.003)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # What was started for somebody who is gone is ended as soon as it has been started.
        await asyncio.to_thread(until, lambda: len(children()) <= before[0] and descriptors() <= before[1])
        assert (await run_program(sandbox, "print('next')")).output.stdout == "next\n"
        await sandbox.close()

    run(many())
    assert list((tmp_path / "runs").iterdir()) == []
    # Those of the whole machine, so one of somebody else may be there for a moment.
    until(lambda: not list(find_orphans()))


@pytest.fixture(name="young")
def _young() -> Generator["subprocess.Popen[bytes]"]:
    """A bubblewrap whose child waits, because its output pipe is full and has no reader."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    command = ["bwrap", "--unshare-user", "--unshare-pid", "--die-with-parent", "--ro-bind", "/", "/"]
    command += ["--info-fd", str(writing), "--", "python", "-I", "-S", "/etc/start.pyc", "/etc/setup", "door"]
    with subprocess.Popen(command, pass_fds=[writing]) as process:
        until(lambda: len(ProcessTree(process.pid).pids()) == 2)
        yield process
        process.kill()
    os.close(reading)
    os.close(writing)


def test_who_kills_a_young_bubblewrap_leaves_no_orphan(young: "subprocess.Popen[bytes]") -> None:
    _, child = ProcessTree(young.pid).pids()
    kill_starting(young)
    kill_starting(young)
    # Whoever inherits the dead may take a while to bury them; the dead have no arguments.
    assert child not in find_orphans()
    place = Path(f"/proc/{child}/cmdline")
    assert not place.exists() or place.read_bytes() == b""


def test_an_orphan_of_a_dead_supervisor_is_found_and_killed(young: "subprocess.Popen[bytes]") -> None:
    _, child = ProcessTree(young.pid).pids()
    assert child not in find_orphans()
    young.kill()
    young.wait()
    assert child in find_orphans()
    kill_orphans()
    assert child not in find_orphans()


def test_a_closed_sandbox_runs_nothing(tmp_path: Path) -> None:
    async def once() -> None:
        sandbox = LocalSandbox(LocalSettings(folder=tmp_path / "runs", warm=0))
        await sandbox.close()
        await sandbox.close()
        with pytest.raises(SandboxUnavailableError, match="closed"):
            await sandbox.check()

    run(once())


@pytest.mark.parametrize("code", ["print('on')\nimport time\ntime.sleep(600)\n", "print('on')\n"])
def test_closing_in_the_middle_of_a_run_tells_whoever_waits_and_leaves_nothing(code: str, tmp_path: Path) -> None:
    """The program still runs, or it has ended and its output folder is being read."""

    async def once() -> None:
        sandbox = LocalSandbox(LocalSettings(folder=tmp_path / "runs", warm=1, preload=("json",)))
        looking = asyncio.Event()
        heard = OutputRecorder()

        async def look() -> None:
            async with sandbox.run(program(code), TableBroker(), heard):
                looking.set()
                await asyncio.sleep(WAIT_S)

        task = asyncio.create_task(look())
        await heard.wait_for_word("on")
        if "sleep" not in code:
            await looking.wait()
        await sandbox.close()
        assert list((tmp_path / "runs").iterdir()) == []
        assert children() == before[1]
        if "sleep" in code:
            with pytest.raises(SandboxUnavailableError, match="closed before the program had ended"):
                await task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    before = held()
    run(once())
    assert held() == before


def test_closing_while_programs_start_leaves_nothing(tmp_path: Path) -> None:
    async def many() -> None:
        for n in range(8):
            sandbox = LocalSandbox(LocalSettings(folder=tmp_path / "runs", warm=0))
            if n % 2:
                await sandbox.check()
            tasks = [asyncio.create_task(run_program(sandbox, "import time\ntime.sleep(600)\n")) for _ in range(3)]
            await asyncio.sleep(n * 0.01)
            await sandbox.close()
            assert list((tmp_path / "runs").iterdir()) == []
            for each in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(each, SandboxUnavailableError)
                assert "closed" in str(each)

    before = held()
    run(many())
    assert held() == before


@pytest.mark.parametrize("pause_s", [0, 0.005, 0.02, 0.05, 0.1, 0.2])
def test_whoever_is_cancelled_while_a_sandbox_opens_leaves_nothing(pause_s: float, tmp_path: Path) -> None:
    async def once() -> None:
        sandbox = LocalSandbox(LocalSettings(folder=tmp_path / "runs", warm=0))
        task = asyncio.create_task(sandbox.check())
        await asyncio.sleep(pause_s)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await sandbox.close()

    before = held()
    run(once())
    assert list((tmp_path / "runs").glob("*")) == []
    assert held() == before


def test_an_interpreter_is_known_by_what_it_says_of_itself(tmp_path: Path) -> None:
    """A wrapper script is followed to its interpreter, and only the required files are visible."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="ascii")
    script.chmod(0o755)
    found = find_interpreter(script, tmp_path)
    assert found.python == Path(sys.executable)
    assert all(part.exists() for part in found.parts)
    assert Path.home() not in found.parts


def test_what_does_not_fit_into_a_pipe_is_an_error() -> None:
    before = descriptors()
    with pytest.raises(OSError, match="does not fit"), Pipes() as pipes:
        pipes.open_reader()
        pipes.open_filled(b"x" * 10**6)
    assert descriptors() == before
