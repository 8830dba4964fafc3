"""Measures the memory of a process with one long conversation, and what holds it."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from bench.measures import fresh_folder
from bench.memory_side import MemoryJob, MemoryReport, Shape
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.settings import BenchRun

_ROOT: Final = Path(__file__).resolve().parents[1]
_SHAPES: Final[dict[Shape, str]] = {"loop": "the loop", "session": "a coding session"}


def measure_memory(run: BenchRun) -> BenchSection:
    """Open a conversation without and with snapshots, each in a new process."""
    blocks = max(run.sizes.round_blocks)
    reports: dict[Shape, tuple[MemoryReport, MemoryReport]] = {}
    for shape in _SHAPES:
        with fresh_folder(run.work) as folder:
            _run_side(MemoryJob("write", str(folder.resolve()), shape, blocks))
            first, again = (_run_side(MemoryJob("open", str(folder.resolve()), shape, blocks)) for _ in range(2))
        reports[shape] = first, again
    peak_bytes = max(report.peak_bytes for report in reports["loop"])
    restarted = reports["loop"][1]
    bars = (
        BenchTarget(f"peak memory with {blocks:,} blocks in sight, MB", peak_bytes / 1e6, at_most=300),
        BenchTarget(
            f"restart to first prompt at {blocks:,} blocks with a snapshot, ms",
            (restarted.load_s + restarted.first_prompt_s) * 1000,
            at_most=600,
        ),
    )
    return BenchSection(tables=(_process_table(reports), _holders_table(reports)), bars=bars)


def _run_side(job: MemoryJob) -> MemoryReport:
    command = [sys.executable, "-m", "bench.memory_side"]
    done = subprocess.run(
        command, cwd=_ROOT, input=msgspec.json.encode(job) + b"\n", stdout=subprocess.PIPE, check=True
    )
    return msgspec.json.decode(done.stdout, type=MemoryReport)


def _process_table(reports: dict[Shape, tuple[MemoryReport, MemoryReport]]) -> BenchTable:
    rows: list[tuple[Cell, ...]] = []
    for shape, both in reports.items():
        for with_snapshot, report in zip(("no", "yes"), both, strict=True):
            rows.append(
                (
                    _SHAPES[shape],
                    with_snapshot,
                    report.in_sight,
                    report.prompt_chars / 1e6,
                    report.imported_bytes / 1e6,
                    report.loaded_bytes / 1e6,
                    report.prompted_bytes / 1e6,
                    report.peak_bytes / 1e6,
                    report.load_s * 1000,
                    report.first_prompt_s * 1000,
                    report.cpu_s * 1000,
                )
            )
    columns = (
        "conversation",
        "snapshots",
        "blocks in sight",
        "prompt, million characters",
        "after imports MB",
        "views loaded MB",
        "first prompt MB",
        "peak MB",
        "load ms",
        "first prompt ms",
        "CPU ms of both",
    )
    notes = (
        "each row is a new process, which loads the conversation and runs a turn of twenty rounds",
        "the loop: results of 410 ASCII characters; a coding session: results of 2,000 characters of several scripts",
        "without snapshots, the process also writes them",
    )
    return BenchTable(title="Memory of a process with one conversation", columns=columns, rows=tuple(rows), notes=notes)


def _holders_table(reports: dict[Shape, tuple[MemoryReport, MemoryReport]]) -> BenchTable:
    opened = [both[1] for both in reports.values()]
    rows: list[tuple[Cell, ...]] = [("program and libraries", *(one.imported_bytes / 1e6 for one in opened))]
    rows += [(name, *(one.holders[name] / 1e6 for one in opened)) for name in opened[0].holders]
    rest = (one.peak_bytes - one.imported_bytes - sum(one.holders.values()) for one in opened)
    rows.append(("rest: snapshots being read, the database, free memory", *(each / 1e6 for each in rest)))
    rows.append(("peak", *(one.peak_bytes / 1e6 for one in opened)))
    notes = ("with snapshots; an object that several hold counts for the first",)
    columns = ("what", *(f"{_SHAPES[shape]} MB" for shape in reports))
    return BenchTable(title="What holds the memory", columns=columns, rows=tuple(rows), notes=notes)
