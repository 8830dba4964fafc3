"""The processes of a measurement: models, servers and crowds, each with as many descriptors as it may have."""

import os
import resource
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.serving.plans import Plan, Report, Where

TOKEN: Final = "bench-bench-bench-bench"

ROOT: Final = Path(__file__).resolve().parents[2]

_SERVER: Final = {
    "TIMELOOM_SERVER_TOKEN": TOKEN,
    "TIMELOOM_SERVER_LIMITS_REQUESTS_PER_S": "none",
    "TIMELOOM_SERVER_LIMITS_BURST": "1000000",
    "TIMELOOM_SERVER_LIMITS_STREAMS": "none",
    "OPENAI_API_KEY": "none",
}
"""One caller is everybody here, so that the limits of one caller are lifted."""

STOP_S: Final = 10.0
"""How long a process has to end when it is told to."""


class ServingError(Exception):
    """A server did not start, or did not do what a crowd asked it for."""


class Process:
    """A process that printed where it serves."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        assert popen.stdout
        self._popen = popen
        words = popen.stdout.readline().split()
        if not words:
            raise ServingError("it ended before it served")
        self.url: str = words[-1]
        self.port = int(self.url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        """Its number at the system."""
        return self._popen.pid

    def memory_bytes(self) -> int:
        """What it has of the machine's memory; 0 where the system does not say."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), 0)

    def cpu_s(self) -> float:
        """What it has used of the machine's processors; 0 where the system does not say."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(folder: Path, model_url: str) -> Generator[tuple[Process, Where]]:
    """`timeloom serve` with a new data folder, and how to come in."""
    command = ["serve", "--data-dir", str(folder), "--port", "0", "--model", "openai:bench", "--title-model", "none"]
    environment = {**_SERVER, "OPENAI_BASE_URL": f"{model_url}/v1"}
    with started(module("timeloom", *command), environment, log=folder.with_suffix(".log")) as process:
        yield process, Where(process.port, TOKEN)


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours."""
    return [sys.executable, "-m", name, *arguments]


@contextmanager
def started(
    command: Sequence[str], environment: dict[str, str] | None = None, said: str = "", log: Path | None = None
) -> Generator[Process]:
    """The command as a process that serves, for as long as the context lasts."""
    with (log or Path(os.devnull)).open("wb") as errors:
        popen = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with popen:
        assert popen.stdin
        try:
            if said:
                popen.stdin.write(said + "\n")
                popen.stdin.flush()
            yield Process(popen)
        finally:
            _stop(popen)


def _stop(popen: subprocess.Popen[str]) -> None:
    popen.terminate()
    try:
        popen.wait(STOP_S)
    except subprocess.TimeoutExpired:
        popen.kill()


class Crowd:
    """The process of a crowd that carries out a plan."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        assert popen.stdin
        assert popen.stdout
        self._input = popen.stdin
        self._output = popen.stdout

    def say(self, line: str) -> None:
        """Tells it something."""
        self._input.write(line + "\n")
        self._input.flush()

    def hear(self) -> Report:
        """What it says next."""
        line = self._output.readline()
        if not line:
            raise ServingError("the crowd broke up")
        return msgspec.json.decode(line, type=Report)


@contextmanager
def gathered(plan: Plan) -> Generator[Crowd]:
    """A crowd at its plan."""
    with subprocess.Popen(
        module("bench.serving.crowd"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as popen:
        crowd = Crowd(popen)
        crowd.say(msgspec.json.encode(plan).decode())
        try:
            yield crowd
        finally:
            popen.terminate()


def most_descriptors(wanted: int) -> int:
    """As many descriptors as this process and those that it starts may have, up to that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
