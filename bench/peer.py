"""Prepares the benchmark-only environment and runs jobs in it."""

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from bench.loop_side import LoopJob, LoopResult
from bench.traces import Trace

ROOT: Final = Path(__file__).resolve().parents[1]
LOCK: Final = ROOT / "requirements-bench.lock"
ENVIRONMENT: Final = ROOT / ".venv-bench"
STAMP: Final = ENVIRONMENT / ".locked"
PROGRAM: Final = Path(__file__).with_name("langgraph_side.py")
LOOPS: Final = Path(__file__).with_name("peer_sides.py")


Mode = Literal["graph", "put", "delta"]
"""A graph with the usual messages channel; the saver's `put` alone; a graph with the delta channel."""


class PeerError(Exception):
    """The other runtime could not be set up or did not finish."""


class ReplayResult(msgspec.Struct, frozen=True):
    """The measurements of a replay on the other runtime, in total and for each step."""

    seconds: float
    written_bytes: int
    step_seconds: list[float]
    pragmas: dict[str, str]


class LoadResult(msgspec.Struct, frozen=True):
    """Duration of each read of that many messages."""

    messages: int
    seconds: list[float]


def prepare() -> Path:
    """Return the Python of the environment; create it from the lock if it is missing or the lock has changed."""
    python = ENVIRONMENT / "bin" / "python"
    if not is_ready():
        run_program([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)])
        run_program([str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(LOCK)])
        STAMP.write_text(_lock_hash(), encoding="ascii")
    return python


def is_ready() -> bool:
    """Return whether the environment matches the lock, so that preparing it needs no network."""
    return STAMP.is_file() and STAMP.read_text(encoding="ascii") == _lock_hash()


def _lock_hash() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def replay_traces(python: Path, folder: Path, traces: list[Trace], mode: Mode) -> ReplayResult:
    """Replay the traces into a database in that folder."""
    job = {"what": "replay", "folder": str(folder), "traces": traces, "mode": mode}
    return msgspec.json.decode(_run_job(python, job), type=ReplayResult)


def load_trace(python: Path, folder: Path, trace: Trace, repeats: int) -> LoadResult:
    """Store the trace's messages with one write, then open and read them that many times."""
    job = {"what": "load", "folder": str(folder), "traces": [trace], "repeats": repeats}
    return msgspec.json.decode(_run_job(python, job), type=LoadResult)


def run_loop(python: Path, job: LoopJob) -> LoopResult:
    """Run a loop of rounds against an endpoint."""
    # Deprecation warnings of the libraries are irrelevant to the measurement.
    command = [str(python), "-I", "-W", "ignore", str(LOOPS)]
    return msgspec.json.decode(run_program(command, msgspec.json.encode(job)), type=LoopResult)


def _run_job(python: Path, job: Mapping[str, object]) -> bytes:
    return run_program([str(python), "-I", str(PROGRAM)], msgspec.json.encode(job))


def run_program(command: list[str], given: bytes = b"", cwd: Path | None = None) -> bytes:
    """Run the program with this standard input and return its output."""
    done = subprocess.run(command, input=given, capture_output=True, check=False, cwd=cwd)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise PeerError(f"{Path(command[0]).name} ended with {done.returncode}: {last[0]}")
    return done.stdout
