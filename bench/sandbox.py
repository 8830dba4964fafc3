"""Measures the local sandbox: start time, cold and warm, and resources left behind by many executions."""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.measures import fresh_folder
from bench.report import BenchSection, BenchTable, BenchTarget
from bench.settings import FULL, QUICK, BenchRun
from timeloom.ports.sandbox import Program, SandboxUnavailableError
from timeloom.sandbox.docker.profile import DEFAULT_IMAGE
from timeloom.sandbox.local import LocalSandbox, LocalSettings
from timeloom.sandbox.processes.process_tree import ProcessTree

SOCKET: Final = "TIMELOOM_DOCKER_SOCKET"
"""Environment variable with the socket of a container engine that has our image; `scripts/with-engine` starts one."""

COLD_OVER_BARE: Final = 2.0
WARM_MS: Final = 15.0

_CODE: Final = "print(1)"
_ENGINES: Final = {"podman": "--url", "docker": "--host"}
"""Commands and their socket options; Docker's client can use both engines, so it is tried last."""


@dataclass(frozen=True, slots=True)
class _ProgramStartTimes:
    name: str
    ms: tuple[float, ...]
    libraries: str = "–"

    @property
    def median(self) -> float:
        return statistics.median(self.ms)

    def row(self, bare: float) -> tuple[str, str, float, float, float]:
        return self.name, self.libraries, self.median, min(self.ms), self.median / bare


@dataclass(frozen=True, slots=True)
class _LeakCounts:
    """Resources that executions could leak; on a shared machine only those of this process."""

    processes: int
    mounts: int
    descriptors: int
    files: int

    @classmethod
    def count(cls, folder: Path) -> "_LeakCounts":
        mounts = [line.split(" ") for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
        return cls(
            processes=len(ProcessTree(os.getpid()).pids()) - 1,
            mounts=sum(
                place.startswith(str(folder)) or (place, kind) == ("/sys", "tmpfs") for _, place, kind, *_ in mounts
            ),
            descriptors=len(list(Path("/proc/self/fd").iterdir())),
            files=sum(1 for _ in folder.rglob("*")),
        )


class _EmptyBroker:
    """A broker that answers every request with an empty object."""

    async def call(self, tool_id: str, params: str) -> str:
        return "{}"

    async def fetch(self, path: str) -> str:
        return "{}"


def measure_sandbox(run: BenchRun) -> BenchSection:
    """Measure a program that prints a number, started in every way, and many of them one after the other."""
    starts, in_a_row = (40, 200) if run.sizes is FULL else (15, 40) if run.sizes is QUICK else (2, 3)
    with fresh_folder(run.work) as folder:
        try:
            return asyncio.run(_measure_starts(folder, run.peer or Path(sys.executable), starts, in_a_row))
        except SandboxUnavailableError as error:
            bare = _ProgramStartTimes("`python -I -c`", tuple(_bare(Path(sys.executable)) for _ in range(starts)))
            return BenchSection(tables=(_starts_table([bare], bare.median, (f"left out of this run: {error}",)),))


async def _measure_starts(folder: Path, python: Path, starts: int, in_a_row: int) -> BenchSection:
    cold = LocalSandbox(LocalSettings(python=python, folder=folder, warm=0))
    warm = LocalSandbox(LocalSettings(python=python, folder=folder, warm=1))
    try:
        await cold.check()
        loaded = await _libraries(warm)
        # Alternately, so that other load on the machine affects all of them.
        bare_ms, cold_ms, warm_ms = list[float](), list[float](), list[float]()
        for _ in range(starts):
            bare_ms.append(_bare(python))
            cold_ms.append(await _time_run(cold))
            await warm.warm()
            warm_ms.append(await _time_run(warm))
        times = [
            _ProgramStartTimes("`python -I -c`", tuple(bare_ms)),
            _ProgramStartTimes("sandbox, cold", tuple(cold_ms)),
            _ProgramStartTimes("sandbox, an interpreter that waited", tuple(warm_ms), loaded),
            *_engines(min(starts, 5)),
        ]
        await warm.close()
        before, after = await _run_many(cold, folder, in_a_row)
    finally:
        await warm.close()
        await cold.close()
    bare, cold_times, warm_times, *_ = times
    load = f"the machine's load was {os.getloadavg()[0]:.1f}, of which 1 is this; it has {os.cpu_count()} processors"
    return BenchSection(
        tables=(
            _starts_table(times, bare.median, (f"the program is `{_CODE}`; from the wish to run it to its end", load)),
            _traces_table(before, after, in_a_row),
        ),
        bars=(
            BenchTarget(
                "sandbox: cold start over a bare start", cold_times.median / bare.median, at_most=COLD_OVER_BARE
            ),
            BenchTarget(f"sandbox: warm start, ms, with {loaded}", warm_times.median, at_most=WARM_MS),
            BenchTarget(
                f"sandbox: left behind by {in_a_row} executions", float(_max_increase(before, after)), at_most=0
            ),
        ),
    )


async def _libraries(sandbox: LocalSandbox) -> str:
    """Return the installed libraries among the preloaded ones."""
    await sandbox.warm()
    printed: list[str] = []
    code = "import sys; print([name for name in ('numpy', 'pandas', 'matplotlib') if name in sys.modules])"
    async with sandbox.run(
        Program(code=code, execution_id="bench"), _EmptyBroker(), lambda _stream, text: printed.append(text)
    ):
        pass
    return "".join(printed).strip("[]\n").replace("'", "") or "no libraries"


def _bare(python: Path) -> float:
    return _time_command([str(python), "-I", "-c", _CODE])


def _time_command(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - started) * 1000


async def _time_run(sandbox: LocalSandbox) -> float:
    started = time.perf_counter()
    async with sandbox.run(
        Program(code=_CODE, execution_id="bench"), _EmptyBroker(), lambda _stream, _text: None
    ) as ran:
        took = (time.perf_counter() - started) * 1000
        assert (ran.ending, ran.stdout_tail) == ("exited", "1\n"), ran
    return took


def _engines(starts: int) -> list[_ProgramStartTimes]:
    """Measure the same program in a container of the configured engine, if there is one; no image is pulled."""
    socket = os.environ.get(SOCKET)
    for engine in filter(shutil.which, _ENGINES if socket else ()):
        given = ["run", "--rm", "--pull=never", "--network=none", "--entrypoint=/usr/local/bin/python3"]
        command = [engine, _ENGINES[engine], f"unix://{socket}", *given, DEFAULT_IMAGE, "-I", "-c", _CODE]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return [_ProgramStartTimes(f"`{engine} run`", tuple(_time_command(command) for _ in range(starts)))]
    return []


async def _run_many(sandbox: LocalSandbox, folder: Path, number: int) -> tuple[_LeakCounts, _LeakCounts]:
    """Return the resources before and after that many executions."""
    await _time_run(sandbox)
    before = _LeakCounts.count(folder)
    for _ in range(number):
        await _time_run(sandbox)
    return before, _LeakCounts.count(folder)


def _max_increase(before: _LeakCounts, after: _LeakCounts) -> int:
    return max(
        after.processes - before.processes,
        after.mounts - before.mounts,
        after.descriptors - before.descriptors,
        after.files - before.files,
    )


def _starts_table(times: list[_ProgramStartTimes], bare: float, notes: tuple[str, ...]) -> BenchTable:
    return BenchTable(
        title="Starting a program",
        columns=("how", "loaded in advance", "median ms", "quickest ms", "over bare"),
        rows=tuple(each.row(bare) for each in times),
        notes=notes,
    )


def _traces_table(before: _LeakCounts, after: _LeakCounts, number: int) -> BenchTable:
    columns = ("", "processes", "mounts", "descriptors", "files and folders")
    rows = tuple(
        (name, each.processes, each.mounts, each.descriptors, each.files)
        for name, each in ((f"before {number} executions in a row", before), ("after", after))
    )
    return BenchTable(title="What executions leave behind", columns=columns, rows=rows)
