"""Starts the processes of a measurement: models, servers and load generators."""

import os
import resource
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.serving.plans import Plan, Report, ServerAddress

TOKEN: Final = "bench-bench-bench-bench"

ROOT: Final = Path(__file__).resolve().parents[2]

_SERVER: Final = {
    "TIMELOOM_SERVER_TOKEN": TOKEN,
    "TIMELOOM_SERVER_LIMITS_REQUESTS_PER_S": "none",
    "TIMELOOM_SERVER_LIMITS_BURST": "1000000",
    "TIMELOOM_SERVER_LIMITS_STREAMS": "none",
    "OPENAI_API_KEY": "none",
}
"""All clients share one key here, so the limits per caller are lifted."""

STOP_S: Final = 10.0
"""Time for a process to terminate before it is killed."""


class ServingError(Exception):
    """A server did not start, or did not answer the load generator correctly."""


class ServingProcess:
    """A process that printed its address."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        assert popen.stdout
        self._popen = popen
        words = popen.stdout.readline().split()
        if not words:
            raise ServingError("the process ended before it printed its address")
        self.url: str = words[-1]
        self.port = int(self.url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    def memory_bytes(self) -> int:
        """Return its resident memory; 0 if the system does not report it."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), 0)

    def cpu_s(self) -> float:
        """Return its CPU time; 0 if the system does not report it."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serve_timeloom(folder: Path, model_url: str) -> Generator[tuple[ServingProcess, ServerAddress]]:
    """Run `timeloom serve` with a new data folder; yield the process and its address."""
    command = ["serve", "--data-dir", str(folder), "--port", "0", "--model", "openai:bench", "--title-model", "none"]
    environment = {**_SERVER, "OPENAI_BASE_URL": f"{model_url}/v1"}
    with start_process(module_command("timeloom", *command), environment, log=folder.with_suffix(".log")) as process:
        yield process, ServerAddress(process.port, TOKEN)


def module_command(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this repository."""
    return [sys.executable, "-m", name, *arguments]


@contextmanager
def start_process(
    command: Sequence[str], environment: dict[str, str] | None = None, stdin_text: str = "", log: Path | None = None
) -> Generator[ServingProcess]:
    """Run the command as a serving process until the context ends."""
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
            if stdin_text:
                popen.stdin.write(stdin_text + "\n")
                popen.stdin.flush()
            yield ServingProcess(popen)
        finally:
            _stop(popen)


def _stop(popen: subprocess.Popen[str]) -> None:
    popen.terminate()
    try:
        popen.wait(STOP_S)
    except subprocess.TimeoutExpired:
        popen.kill()


class LoadGenerator:
    """The process of a load generator that executes a plan."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        assert popen.stdin
        assert popen.stdout
        self._input = popen.stdin
        self._output = popen.stdout

    def send(self, line: str) -> None:
        """Send it a line."""
        self._input.write(line + "\n")
        self._input.flush()

    def receive(self) -> Report:
        """Return its next report."""
        line = self._output.readline()
        if not line:
            raise ServingError("the load generator ended without a report")
        return msgspec.json.decode(line, type=Report)


@contextmanager
def start_load(plan: Plan) -> Generator[LoadGenerator]:
    """Start a load generator with its plan."""
    with subprocess.Popen(
        module_command("bench.serving.crowd"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as popen:
        crowd = LoadGenerator(popen)
        crowd.send(msgspec.json.encode(plan).decode())
        try:
            yield crowd
        finally:
            popen.terminate()


def raise_descriptor_limit(wanted: int) -> int:
    """Raise the descriptor limit of this process and its children up to that number; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
