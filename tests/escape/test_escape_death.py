"""A supervisor dies: its programs die with it, and the next supervisor removes its files."""

import asyncio
import signal
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.escape.escape_harness import mounts
from tests.harness.repository import ROOT, program
from timeloom.sandbox.local import LocalSandbox, LocalSettings
from timeloom.sandbox.local.orphans import find_orphans
from timeloom.sandbox.processes.cgroup import find_hierarchies
from timeloom.testing.sandbox_contract.ending import find_pids

SUPERVISOR = program("tests.escape.supervisor")
MARK = "sleeper-of-a-dead-supervisor"


@pytest.fixture(name="supervisor")
def _supervisor(tmp_path: Path) -> Generator["subprocess.Popen[str]"]:
    """One whose program runs; the mark is handed over backwards, so that only the program's process bears it."""
    command = [*SUPERVISOR, str(tmp_path), MARK[::-1]]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


def groups() -> list[str]:
    return [folder.name for place in find_hierarchies() for folder in place.folder.glob("timeloom-*")]


def open_and_close(folder: Path) -> None:
    """Clean up as the next supervisor does."""

    async def work() -> None:
        sandbox = LocalSandbox(LocalSettings(folder=folder, warm=0))
        await sandbox.check()
        await sandbox.close()

    asyncio.run(work())


def wait_until_gone() -> None:
    """The kernel kills the processes at some point; the test is that they disappear at all."""
    while find_pids(MARK):
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_supervisor_that_dies_takes_its_programs_along(
    supervisor: "subprocess.Popen[str]", number: signal.Signals, tmp_path: Path
) -> None:
    assert find_pids(MARK)
    left = [path.name for path in tmp_path.iterdir()]
    supervisor.send_signal(number)
    supervisor.wait()
    wait_until_gone()
    assert mounts(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == left, "nobody has cleaned up yet"

    open_and_close(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not [name for name in groups() if f".{supervisor.pid}." in name]
    # Those of the whole machine, so one of somebody else may be there for a moment.
    while list(find_orphans()):
        time.sleep(0.01)


@pytest.mark.usefixtures("supervisor")
def test_a_supervisor_that_lives_keeps_its_folders(tmp_path: Path) -> None:
    open_and_close(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    assert find_pids(MARK)
