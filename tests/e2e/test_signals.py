"""A command that a signal ends cleans up and reports the signal in its exit code."""

import os
import signal
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.test_exec_command import children_of, executes, scripted, timeloom
from timeloom.sandbox.processes.cgroup import find_hierarchies

RUNS_ON = (
    "import os, signal, time",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "if os.fork() == 0:",
    "    os.setsid()",
    "    time.sleep(1000)",
    "print('it', 'runs')",
    "time.sleep(1000)",
)


@contextmanager
def commanded(command: Sequence[str], runs: Path) -> Generator["subprocess.Popen[str]"]:
    runs.mkdir()
    pipe = subprocess.PIPE
    environ = {**os.environ, "TMPDIR": str(runs)}
    # Whoever runs the tests may have signals ignored, as `nohup` does.
    command = ["env", "--default-signal=HUP,TERM", *command]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environ) as process:
        yield process
        process.kill()


def is_alive(pid: int) -> bool:
    """Whether it still runs; the dead may take a while to be buried, and have no arguments."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def groups_of(process: "subprocess.Popen[str]") -> list[str]:
    """Control groups that it has made."""
    return [folder.name for place in find_hierarchies() for folder in place.folder.glob(f"timeloom-*.{process.pid}.*")]


def left_of(process: "subprocess.Popen[str]", inside: Sequence[int], runs: Path) -> list[str]:
    """Return the processes that remain of the programs it ran."""
    processes = [str(pid) for pid in inside if is_alive(pid)]
    return [*processes, *groups_of(process), *(folder.name for root in runs.iterdir() for folder in root.iterdir())]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_what_runs_and_leaves_nothing_of_it(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with commanded([*scripted(tmp_path, executes(RUNS_ON)), "--json"], tmp_path / "runs") as chat:
        assert chat.stdin
        assert chat.stdout
        chat.stdin.write("go\n")
        chat.stdin.flush()
        assert any("it runs" in line for line in chat.stdout)
        inside = children_of(chat.pid)
        assert len(inside) > 2
        assert groups_of(chat) or not find_hierarchies(), "the check must see groups while there are some"
        chat.send_signal(number)
        assert chat.wait() == code
        assert left_of(chat, inside, tmp_path / "runs") == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_reaches_a_command_that_waits_for_input(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with commanded([*scripted(tmp_path), "--json"], tmp_path / "runs") as chat:
        assert chat.stdout
        assert chat.stdout.readline()
        chat.send_signal(number)
        assert chat.wait() == code


def test_a_worker_ends_too_and_the_next_goes_on(tmp_path: Path) -> None:
    command = scripted(tmp_path, executes(RUNS_ON))
    with commanded([*command, "--json"], tmp_path / "chat") as chat:
        assert chat.stdin
        assert chat.stdout
        chat.stdin.write("go\n")
        chat.stdin.flush()
        assert any("it runs" in line for line in chat.stdout)
        chat.kill()
    with commanded([*timeloom(tmp_path, "worker"), *command[-4:]], tmp_path / "worker") as worker:
        while not (inside := children_of(worker.pid)):
            time.sleep(0.01)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait() == 143
        assert left_of(worker, inside, tmp_path / "worker") == []


def test_a_signal_that_was_ignored_before_stays_so(tmp_path: Path) -> None:
    command = ["nohup", *scripted(tmp_path), "--json"]
    with commanded(command, tmp_path / "runs") as chat:
        assert chat.stdin
        assert chat.stdout
        assert chat.stdout.readline()
        chat.send_signal(signal.SIGHUP)
        chat.stdin.write("go\n")
        chat.stdin.close()
        assert any("Done." in line for line in chat.stdout)
        assert chat.wait() == 0
