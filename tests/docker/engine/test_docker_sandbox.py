"""The container sandbox with a real engine: it confines a program and leaves nothing behind."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docker.docker_harness import (
    SOCKET,
    STRATEGIES,
    EchoBroker,
    Strategy,
    containers,
    open_sandbox,
    profile,
    remaining_files,
    run_program,
)
from tests.harness.repository import ROOT
from timeloom.ports.sandbox import MIB, ExecutionLimits, Program, SandboxUnavailableError
from timeloom.sandbox.docker import DockerSandbox
from timeloom.sandbox.docker.engine import ContainerEngine
from timeloom.sandbox.docker.users import choose_users
from timeloom.sandbox.unused_uid import has_account

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("strategy", STRATEGIES)]

LOOK_AROUND = """
import json, os, socket
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
def refused(work):
    try:
        work()
    except OSError as error:
        return error.errno
print(json.dumps({
    "ids": [os.getuid(), os.getgid(), os.getgroups()],
    "capabilities": [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")],
    "new_privileges": status["NoNewPrivs"], "seccomp": status["Seccomp"], "filters": int(status["Seccomp_filters"]),
    "networks": [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]],
    "root": refused(lambda: open("/x", "w")), "system": refused(lambda: open("/usr/x", "w")),
    "inet": refused(lambda: socket.socket(socket.AF_INET)), "door": refused(lambda: os.listdir("/workspace/sock")),
    "environment": sorted(os.environ), "address_space": __import__("resource").getrlimit(9)[1],
}))
"""

DIES = """
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from tests.docker.docker_harness import EchoBroker, profile
from timeloom.ports.sandbox import Program
from timeloom.sandbox.docker import DockerSandbox

async def main():
    sandbox = DockerSandbox(profile(Path({runs!r}), {strategy!r}))
    program = Program(code="import time; print(1); time.sleep(60)", execution_id="exec_1")
    async with sandbox.run(program, EchoBroker(), lambda stream, text: os.kill(os.getpid(), 9)):
        pass

asyncio.run(main())
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


async def test_a_program_has_no_rights_no_network_and_nothing_to_write_to(strategy: Strategy, runs: Path) -> None:
    async with open_sandbox(profile(runs, strategy)) as sandbox:
        result = await run_program(sandbox, LOOK_AROUND, ExecutionLimits(memory_bytes=256 * MIB))
    seen = json.loads(result.stdout_tail)
    uid, gid, groups = seen["ids"]
    assert uid == gid
    assert groups in ([], [gid])
    assert seen["capabilities"] == [0, 0, 0, 0]
    assert (seen["new_privileges"], seen["seccomp"]) == ("1", "2")
    assert seen["filters"] == 2, "the engine's own filter, and ours"
    assert seen["networks"] == ["lo"]
    assert (seen["root"], seen["system"], seen["inet"], seen["door"]) == (30, 30, 97, 13)
    assert not {name for name in seen["environment"] if "TIMELOOM" in name or "DOCKER" in name}
    assert seen["address_space"] == (256 + 1024) * MIB


def own_uid_map() -> str:
    return Path("/proc/self/uid_map").read_text()


async def test_a_program_is_no_account_of_this_machine_inside_and_outside(strategy: Strategy, runs: Path) -> None:
    code = (
        "import getpass, grp, os, pwd, time\n"
        "open(OUT_DIR / 'a', 'w').close()\n"
        "print(os.getuid(), os.getgid(), getpass.getuser(), pwd.getpwuid(os.getuid()).pw_dir, "
        "grp.getgrgid(os.getgid()).gr_name)\n"
        "print(*open('/proc/self/uid_map').read().split())\n"
        "print(os.stat(OUT_DIR).st_uid, os.stat('/proc/1').st_uid)"
    )
    program = Program(code=code, execution_id="exec_1", limits=ExecutionLimits(wall_s=30))
    async with (
        open_sandbox(profile(runs, strategy)) as sandbox,
        sandbox.run(program, EchoBroker(), lambda _stream, _text: None) as result,
    ):
        owner = (result.out_dir / "a").stat()
    who, mapping, folders = (line.split() for line in result.stdout_tail.splitlines())
    uid = choose_users().program.uid
    assert who == [str(uid), str(uid), "sandbox", "/workspace/work", "sandbox"]
    assert mapping == own_uid_map().split(), "the engine maps no user ids"
    assert (owner.st_uid, owner.st_gid) == (uid, uid)
    assert folders[0] == str(uid)
    assert not has_account(uid)


async def test_a_supervisors_network_is_not_the_programs(strategy: Strategy, runs: Path) -> None:
    code = "print([line.split(':')[0].strip() for line in open('/proc/net/dev').read().splitlines()[2:]])"
    async with open_sandbox(profile(runs, strategy, network_mode="host")) as sandbox:
        result = await run_program(sandbox, code)
    assert result.stdout_tail == "['lo']\n"


async def test_large_calls_go_through_and_come_back(strategy: Strategy, runs: Path) -> None:
    code = "text = 'x' * 5_000_000\nprint(io_tools.tool_call('echo', {'text': text})['ret']['text'] == text)"
    async with open_sandbox(profile(runs, strategy)) as sandbox:
        result = await run_program(sandbox, code)
    assert result.stdout_tail == "True\n", result


async def test_the_door_itself_lets_only_its_own_in(strategy: Strategy, runs: Path) -> None:
    """In a combined container the program sees the door's folder, and is not who may come in by it."""
    code = """
import socket
connection = socket.socket(socket.AF_UNIX)
connection.connect("/workspace/sock/door")
connection.sendall(b"\\0\\0\\0\\x02{}")
print(connection.recv(10))
"""
    async with open_sandbox(profile(runs, strategy)) as sandbox:
        result = await run_program(sandbox, code)
    assert result.stdout_tail == "b''\n" or "Broken" in result.stderr_tail or "reset" in result.stderr_tail, result


async def test_the_first_process_is_beyond_a_programs_signals(strategy: Strategy, runs: Path) -> None:
    code = """
import os, time
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
time.sleep(0.2)
for name in ("mem", "environ"):
    try:
        open(f"/proc/1/{name}", "r+b")
        print("opened", name)
    except OSError:
        print("refused")
"""
    async with open_sandbox(profile(runs, strategy)) as sandbox:
        result = await run_program(sandbox, code)
    assert (result.ending, result.stdout_tail) == ("exited", "refused\nrefused\n")


async def test_what_is_cancelled_is_gone(strategy: Strategy, runs: Path) -> None:
    async with open_sandbox(profile(runs, strategy)) as sandbox:
        printed = asyncio.Event()
        program = Program(code="import time\nprint(1)\ntime.sleep(60)", execution_id="exec_1")

        async def run() -> None:
            async with sandbox.run(program, EchoBroker(), lambda _stream, _text: printed.set()):
                pass

        task = asyncio.create_task(run())
        await printed.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await containers(runs) == []
        assert {"lock", "passwd", "group"} == {name for name in remaining_files(runs) if len(name) != 16}
    assert remaining_files(runs) == []


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.08, 0.15, 0.25])
async def test_a_start_that_is_cancelled_leaves_nothing(strategy: Strategy, runs: Path, after_s: float) -> None:
    async with open_sandbox(profile(runs, strategy)) as sandbox:
        await sandbox.check()
        task = asyncio.create_task(run_program(sandbox, "import time; time.sleep(60)"))
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await containers(runs) == []


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.1, 0.3])
async def test_closing_while_a_container_starts_tells_whoever_waits_and_leaves_nothing(
    strategy: Strategy, runs: Path, after_s: float
) -> None:
    sandbox = DockerSandbox(profile(runs, strategy))
    await sandbox.check()
    task = asyncio.create_task(run_program(sandbox, "import time; time.sleep(600)", ExecutionLimits(wall_s=60)))
    await asyncio.sleep(after_s)
    await sandbox.close()
    assert (await containers(runs), remaining_files(runs)) == ([], [])
    with pytest.raises(SandboxUnavailableError, match="closed"):
        await task
    with pytest.raises(SandboxUnavailableError, match="closed"):
        await sandbox.check()


async def test_what_a_dead_supervisor_left_ends_and_is_swept(strategy: Strategy, runs: Path) -> None:
    script = DIES.format(folder=str(ROOT), runs=str(runs), strategy=strategy)
    died = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], check=False)
    assert died.returncode == -signal.SIGKILL
    engine = ContainerEngine(Path(SOCKET))
    (left,) = await containers(runs)
    await asyncio.wait_for(engine.wait(left), 30)
    async with open_sandbox(profile(runs, strategy)) as sandbox:
        await sandbox.check()
        assert await containers(runs) == []
    assert remaining_files(runs) == []


async def test_containers_of_a_supervisor_that_lives_are_not_swept(strategy: Strategy, runs: Path) -> None:
    async with open_sandbox(profile(runs, strategy, warm=1)) as first, open_sandbox(profile(runs, strategy)) as second:
        await first.warm()
        await second.check()
        assert len(await containers(runs)) == 1
        assert (await run_program(first, "print(1)", ExecutionLimits())).stdout_tail == "1\n"


async def test_a_container_that_waits_serves_one_program(strategy: Strategy, runs: Path) -> None:
    async with open_sandbox(profile(runs, strategy, warm=1)) as sandbox:
        await sandbox.warm()
        (waiting,) = await containers(runs)
        first = await run_program(sandbox, "import sys; print('numpy' in sys.modules)", ExecutionLimits())
        assert waiting not in await containers(runs)
        await sandbox.warm()
        second = await run_program(sandbox, "print(2)", ExecutionLimits(memory_bytes=128 * MIB))
        assert (first.stdout_tail, second.stdout_tail) == ("True\n", "2\n")
    assert await containers(runs) == []


async def test_one_that_was_removed_while_it_waited_is_not_used(strategy: Strategy, runs: Path) -> None:
    async with open_sandbox(profile(runs, strategy, warm=1)) as sandbox:
        await sandbox.warm()
        (waiting,) = await containers(runs)
        await ContainerEngine(Path(SOCKET)).remove(waiting)
        await asyncio.sleep(0.2)
        assert (await run_program(sandbox, "print(1)", ExecutionLimits())).stdout_tail == "1\n"


async def test_a_profile_makes_a_container_smaller(strategy: Strategy, runs: Path) -> None:
    settings = profile(runs, strategy, memory="64m", extra_args=("--ulimit", "nofile=40", "--pids-limit", "12"))
    code = """
import os, resource
print(resource.getrlimit(resource.RLIMIT_NOFILE))
children = 0
try:
    while True:
        if os.fork() == 0:
            import time; time.sleep(5); os._exit(0)
        children += 1
except OSError:
    print(children <= 12)
"""
    async with open_sandbox(settings) as sandbox:
        small = await run_program(sandbox, code)
        large = await run_program(sandbox, "x = bytearray(200 * 2**20)")
    assert small.stdout_tail == "(40, 40)\nTrue\n", small
    assert large.ending == "memory"


async def test_an_image_that_is_not_ours_is_refused(strategy: Strategy, runs: Path) -> None:
    sandbox = DockerSandbox(profile(runs, strategy, image="not-there:1"))
    with pytest.raises(SandboxUnavailableError, match="has no image 'not-there:1'; build it"):
        await sandbox.check()


async def test_a_container_that_cannot_start_says_why_and_leaves_nothing(strategy: Strategy, runs: Path) -> None:
    wrong = {"split": profile(runs, start_s=0.01), "combined": profile(runs, "combined", network_mode="not-there")}
    with pytest.raises(
        SandboxUnavailableError, match=r"did not start within|the container engine refused a container: "
    ):
        await DockerSandbox(wrong[strategy]).check()
    assert await containers(runs) == []
    assert remaining_files(runs) == []


async def test_many_runs_leave_nothing(strategy: Strategy, runs: Path) -> None:
    async with open_sandbox(profile(runs, strategy)) as sandbox:
        await run_program(sandbox, "print(0)")
        before = descriptors()
        for number in range(5):
            assert (await run_program(sandbox, f"print({number})")).stdout_tail == f"{number}\n"
        assert descriptors() == before
        assert await containers(runs) == []
    assert remaining_files(runs) == []
    assert str(runs) not in mounts()


def descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def mounts() -> str:
    return Path("/proc/self/mounts").read_text(encoding="utf-8")
