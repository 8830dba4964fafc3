"""Programs in tasks that try to escape: the executor confines them without namespaces."""

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.fargate.fake_task import INSIDE, ROOT, FakeContainer
from tests.fargate.fargate_harness import FargateHarness, FinishedProgram
from timeloom.ports.sandbox import ExecutionLimits
from timeloom.sandbox.remote.drop_privileges import ConfinementSpec
from timeloom.sandbox.remote.landlock import version

pytestmark = pytest.mark.anyio
SECRET = "hunter2"
PROGRAM = (Path(__file__).parent / "attempts.py").read_text()
NEEDS_LANDLOCK = frozenset(
    {
        "abstract_socket",
        "arguments_of_supervisor",
        "names_of_the_network",
        "read_the_supervisors_code",
        "write_to_tmp",
    }
)
"""What only Landlock refuses; docs/how-to/run-programs-on-fargate.md says why a task can do without."""

BEYOND = NEEDS_LANDLOCK if not version() else {"abstract_socket"} if version() < 6 else set[str]()
"""Attempts that Landlock of this machine's kernel does not refuse; none on Linux 6.12 or newer."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Outside:
    """Targets that no sandbox may reach: a port and an abstract socket."""

    def __init__(self, name: str) -> None:
        self.abstract = name
        self._internet = socket.create_server(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX)
        self._unix.bind(f"\0{name}")
        self._unix.listen()
        self.port = self._internet.getsockname()[1]

    def reached(self) -> bool:
        """Return whether the port received a connection."""
        self._internet.setblocking(False)
        try:
            connection, _ = self._internet.accept()
        except BlockingIOError:
            return False
        connection.close()
        return True

    def close(self) -> None:
        self._internet.close()
        self._unix.close()


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    opened = Outside(f"timeloom-test-{tmp_path}")
    yield opened
    opened.close()


async def tried(stage: FargateHarness, outside: Outside, folder: Path) -> tuple[FinishedProgram, dict[str, str]]:
    """Return the result of each attempt."""
    places = folder / "places.json"
    code = ROOT / "src/timeloom/sandbox/remote/supervisor.py"
    places.write_text(json.dumps([outside.port, outside.abstract, str(code)]))
    sandbox = stage.sandbox(descriptors={"secrets.yaml": SECRET})
    done = await stage.run(PROGRAM, sandbox=sandbox, inputs={"places.json": places})
    assert done.printed == "still here\n", done.ran
    return done, msgspec.json.decode(done.files["found.json"], type=dict[str, str])


async def test_nothing_that_a_program_tries_gets_it_out(
    stage: FargateHarness, outside: Outside, tmp_path: Path
) -> None:
    done, found = await tried(stage, outside, tmp_path)
    assert {name for name, said in found.items() if said.startswith("did it")} == BEYOND
    assert len(found) == PROGRAM.count("@attempt\n")
    assert not outside.reached()
    assert SECRET not in str(done.files)


async def test_without_landlock_all_holds_but_what_is_said_to_need_it(
    stage: FargateHarness, outside: Outside, tmp_path: Path
) -> None:
    stage.aws.ecs.landlock = False
    done, found = await tried(stage, outside, tmp_path)
    assert {name for name, said in found.items() if said.startswith("did it")} == NEEDS_LANDLOCK
    assert not outside.reached()
    assert SECRET not in str(done.files)


async def test_a_fork_bomb_ends_with_its_time(stage: FargateHarness) -> None:
    code = """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.001)
"""
    done = await stage.run(code, limits=ExecutionLimits(wall_s=1.5, processes=32))
    assert done.ran.ending == "timeout"
    assert stage.remaining_resources() == []


async def test_a_program_can_still_do_its_work(stage: FargateHarness) -> None:
    code = """
import asyncio, multiprocessing, subprocess, tempfile, threading
with tempfile.NamedTemporaryFile() as file:
    file.write(b"x")
threading.Thread(target=lambda: print("thread", flush=True)).start()
print(subprocess.run(["sh", "-c", "echo shell"], capture_output=True, text=True).stdout.strip(), flush=True)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(sum(pool.map(abs, [-1, -2])))
async def pair():
    await asyncio.sleep(0)
    return "loop"
print(await pair())
"""
    done = await stage.run(code)
    assert sorted(done.printed.split()) == ["3", "loop", "shell", "thread"], done.ran


LINGERING = """
import os, sys, time
for number in range(8):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(0.3)
            while True:
                try:
                    os.fork()
                except OSError:
                    time.sleep(0.001)
        os._exit(0)
time.sleep(0.8)
sys.exit(7)
"""
COUNT = "for each in /proc/[0-9]*; do stat -c %u $each; done 2>/dev/null | grep -c {uid} >&2"


def test_what_a_program_has_left_running_is_gone_when_its_keeper_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    for name in ("work", "out"):
        (tmp_path / name).mkdir(mode=0o777)
        (tmp_path / name).chmod(0o777)
    (tmp_path / "bootstrap.py").write_text(LINGERING)
    cell = ConfinementSpec(
        uid=INSIDE,
        work="/workspace/work",
        out="/workspace/out",
        bootstrap="/workspace/bootstrap.py",
        socket="/workspace/none",
        limits=ExecutionLimits(processes=40),
    )
    keeper = f"{sys.executable} -I -m timeloom.sandbox.remote.init '{msgspec.json.encode(cell).decode()}'"
    command = ("sh", "-c", f"{keeper}; echo code $? >&2; {COUNT.format(uid=INSIDE)}; true")
    container = FakeContainer.start({"PATH": "/usr/bin:/bin"}, tmp_path, command)
    assert container.wait() == 0
    assert b"".join(container.stderr_lines).split() == [b"code", b"7", b"0"]
