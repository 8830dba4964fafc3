"""Measures the cost of a round besides model and tools, by conversation length.

Measured: wall time from one request to the next, less the time inside the model and inside the tool. It includes
reading the reply, folding it, the gates, two synced appends (SQLite), rendering of new entries and building the
request. Nothing is compacted: the whole conversation is visible, and every request contains all of it.

Not measured: serialising and sending the request, which a provider does (`rounds_providers`); the first two rounds of a
turn, of which one renders the existing entries ("first prompt"); titles, shared budgets, and connected clients.
"""

import statistics
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bench.measures import StepTimes, fresh_folder
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.rounds_providers import measure_provider_rounds
from bench.rounds_side import RoundsJob, RoundsReady, TurnTimes
from bench.settings import BenchRun
from timeloom.core.render.editions import EDITIONS, FIRST_EDITION, THIRD_EDITION

_ROOT: Final = Path(__file__).resolve().parents[1]
_T = TypeVar("_T")


class _RoundsWorker:
    """A process with one conversation."""

    def __init__(self, process: subprocess.Popen[bytes], job: RoundsJob) -> None:
        self._process = process
        self._send(msgspec.json.encode(job))
        self.ready = self._receive(RoundsReady)
        self.turns: list[TurnTimes] = []

    def run_turn(self) -> None:
        """Run one more turn."""
        self._send(b"")
        self.turns.append(self._receive(TurnTimes))

    def _send(self, line: bytes) -> None:
        assert self._process.stdin
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def _receive(self, kind: type[_T]) -> _T:
        assert self._process.stdout
        return msgspec.json.decode(self._process.stdout.readline(), type=kind)


def measure_rounds(run: BenchRun) -> BenchSection:
    """Run the same turn on conversations of each length alternately, so that other load affects all of them."""
    sizes = run.sizes
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(run, blocks)) for blocks in sizes.round_blocks]
        for _ in range(sizes.round_turns):
            for worker in workers:
                worker.run_turn()
    shortest_s, longest_s = _typical_s(workers[0]), _typical_s(workers[-1])
    rows = [_row(worker, shortest_s) for worker in workers]
    columns = (
        "blocks in sight",
        "own ms a round",
        "at its quickest ms",
        "over the shortest",
        "nine tenths below ms",
        "slowest ms",
        "after the reply ms",
        "before the request ms",
        "CPU ms a round",
        "first prompt ms",
        "with a snapshot ms",
        "prompt KB",
        "peak memory MB",
    )
    notes = (
        "own: from one request to the next, without the time inside model and tool; SQLite, every append synced",
        "after the reply: reading it, the outcome and the call appended; before the request: the rest of the round",
        f"medians over {sizes.round_turns} turns of {sizes.round_count} rounds, the first rounds of a turn left out",
        "at its quickest: of each round the quickest turn, since what else a machine does only adds; ratios are by it",
        "first prompt: after a restart, when all that is in sight is read and rendered once",
        "with a snapshot: the same, when a snapshot has the rendered prompt",
        "what a provider does with the request (making its body, sending it) is not in it",
    )
    table = BenchTable(title="Own cost of a round", columns=columns, rows=tuple(rows), notes=notes)
    longest, shortest = sizes.round_blocks[-1], sizes.round_blocks[0]
    median_s = statistics.median(_rounds_s(workers[-1].turns))
    growth = BenchTarget(
        f"own cost of a round at {longest:,} over {shortest:,} blocks", longest_s / shortest_s, at_most=1.5
    )
    cost = BenchTarget(f"own cost of a round at {longest:,} blocks, ms in the median", median_s * 1000, at_most=5)
    editions, providers = _measure_editions(run), measure_provider_rounds(run)
    tables = (table, *editions.tables, *providers.tables)
    return BenchSection(tables=tables, bars=(growth, cost, *editions.bars, *providers.bars))


def _measure_editions(run: BenchRun) -> BenchSection:
    """Run the same turn in every edition of the prompt alternately."""
    blocks = run.sizes.round_blocks[-2:][0]
    with ExitStack() as stack:
        workers = {edition: stack.enter_context(_worker(run, blocks, edition)) for edition in EDITIONS}
        for _ in range(run.sizes.round_turns):
            for worker in workers.values():
                worker.run_turn()
    typical_s = {edition: _typical_s(worker) for edition, worker in workers.items()}
    cpu_s = {edition: _typical_cpu_s(worker) for edition, worker in workers.items()}
    rows = tuple(
        (edition, worker.ready.in_sight, typical_s[edition] * 1000, cpu_s[edition] * 1000)
        for edition, worker in workers.items()
    )
    columns = ("edition", "blocks in sight", "at its quickest ms", "CPU at its quickest ms")
    over_first = {edition: cpu_s[edition] / cpu_s[FIRST_EDITION] for edition in EDITIONS[1:]}
    return BenchSection(
        tables=(BenchTable(title="Own cost of a round by edition", columns=columns, rows=rows),),
        bars=tuple(
            BenchTarget(f"CPU time of a round, edition {edition} over edition 1", ratio, at_most=1)
            for edition, ratio in over_first.items()
        ),
    )


@contextmanager
def _worker(run: BenchRun, blocks: int, edition: int = THIRD_EDITION) -> Generator[_RoundsWorker]:
    command = [sys.executable, "-m", "bench.rounds_side"]
    with (
        fresh_folder(run.work) as folder,
        subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
    ):
        yield _RoundsWorker(process, RoundsJob(blocks, str(folder.resolve()), run.sizes.round_count, edition))


def _rounds_s(turns: Sequence[TurnTimes]) -> list[float]:
    return [seconds for turn in turns for seconds in turn.round_s()]


def _typical_s(worker: _RoundsWorker) -> float:
    """Return the median over the rounds of a turn, each at its quickest."""
    steps = StepTimes()
    for turn in worker.turns:
        steps.add(turn.round_s())
    return statistics.median(steps.quickest_s)


def _typical_cpu_s(worker: _RoundsWorker) -> float:
    """Return the same for CPU time."""
    steps = StepTimes()
    for turn in worker.turns:
        steps.add(turn.cpu_s)
    return statistics.median(steps.quickest_s)


def _row(worker: _RoundsWorker, shortest_s: float) -> tuple[Cell, ...]:
    turns = worker.turns
    all_s = sorted(_rounds_s(turns))
    return (
        worker.ready.in_sight,
        statistics.median(all_s) * 1000,
        _typical_s(worker) * 1000,
        _typical_s(worker) / shortest_s,
        all_s[-1 - len(all_s) // 10] * 1000,
        all_s[-1] * 1000,
        statistics.median(seconds for turn in turns for seconds in turn.after_reply_s) * 1000,
        statistics.median(seconds for turn in turns for seconds in turn.before_request_s) * 1000,
        statistics.median(seconds for turn in turns for seconds in turn.cpu_s) * 1000,
        turns[0].opening_s * 1000,
        statistics.median(turn.opening_s for turn in turns[1:]) * 1000 if worker.ready.is_kept and turns[1:] else None,
        turns[-1].prompt_chars / 1000,
        turns[-1].peak_bytes / 1e6,
    )
