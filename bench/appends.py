"""Measures appends: traces replayed step by step into the embedded store and into LangGraph's."""

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import peer
from bench.drafts import Append, to_appends
from bench.measures import StepTimes, disk_bytes, fresh_folder, written_bytes
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.settings import BenchRun
from bench.traces import Trace
from timeloom.core.blocks import ConversationStarted, Thinking
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.core.view.views import Views, fold
from timeloom.stores.disk import Disk
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.connections import ConnectionPool
from timeloom.stores.sqlite.writer import PREALLOCATED_WAL_BYTES

LONG_TEXT_CHARS: Final = 1000
_TS: Final = "2026-01-01T00:00:00Z"
_SYNCED_BYTES: Final = 4 * (4096 + 24)
"""The usual commit of a step: four pages, each with its header in the write-ahead log."""


class AppendMeasurement:
    """The measurements of several runs of one workload on one side."""

    def __init__(self) -> None:
        self.steps = StepTimes()
        self.syncs = StepTimes()
        """Durations of syncs alone, without an append."""
        self.seconds: list[float] = []
        self.disk_bytes = 0
        self.written_bytes = 0
        self.pragmas: dict[str, str] = {}

    @property
    def best_s(self) -> float:
        """Duration of the quickest run, from before the store is opened until it is closed."""
        return min(self.seconds)


def measure_traces(run: BenchRun) -> BenchSection:
    """Measure each session on both sides alternately, so that other load on the machine affects both."""
    rows: list[tuple[Cell, ...]] = []
    bars: list[BenchTarget] = []
    notes = [
        f"timeloom: {_pragmas_here(run)}; a step is one append and the folding of its entries into the views",
        f"sync alone: fdatasync of {_SYNCED_BYTES:,} new bytes in a file of the log's size, in the same runs",
    ]
    for trace in run.sessions:
        sides = _replay_in_turns(run, trace)
        rows += [_row(name, trace, side) for name, side in sides.items()]
        bars += _bars(trace, sides)
        if _GRAPH in sides and len(notes) == 2:
            notes += _notes_there(sides[_GRAPH])
    columns = (
        "session",
        "side",
        "payload KB",
        "steps",
        "steps/s",
        "blocks/s",
        "first tenth ms",
        "last tenth ms",
        "its median ms",
        "sync alone ms",
        "last/first",
        "disk/payload",
        "written/payload",
    )
    title = "Appending a session, step by step"
    return BenchSection(
        tables=(BenchTable(title=title, columns=columns, rows=tuple(rows), notes=tuple(notes)),),
        bars=tuple(bars),
    )


def measure_long(run: BenchRun) -> BenchSection:
    """Measure many appends of one size to one conversation, to see whether the cost grows with its length."""
    side = AppendMeasurement()
    appends = _equal_appends(run.sizes.long_appends)
    for _ in range(run.sizes.long_runs):
        _replay_here(run, [("conv_long", appends)], side)
    payload = len(appends) * LONG_TEXT_CHARS
    row = (
        len(appends),
        len(appends) / side.best_s,
        side.steps.first_s() * 1e6,
        side.steps.last_s() * 1e6,
        side.steps.growth(),
        side.disk_bytes / payload,
        side.written_bytes / payload,
    )
    columns = (
        "appends",
        "appends/s",
        "first tenth µs",
        "last tenth µs",
        "last/first",
        "disk/payload",
        "written/payload",
    )
    return BenchSection(
        tables=(
            BenchTable(title=f"One long conversation, {LONG_TEXT_CHARS} bytes an append", columns=columns, rows=(row,)),
        ),
        bars=(BenchTarget(f"{len(appends):,} appends: last tenth over first", side.steps.growth(), at_most=1.3),),
    )


def measure_concurrent(run: BenchRun) -> BenchSection:
    """Measure concurrent conversations: appends that wait together share a sync."""
    rows: list[tuple[int, float, float]] = []
    steps = max(20, run.sizes.long_appends // 20)
    for count in (1, run.sizes.concurrent):
        side = AppendMeasurement()
        work = [(f"conv_{n}", _equal_appends(steps)) for n in range(count)]
        for _ in range(run.sizes.long_runs):
            _replay_here(run, work, side)
        appends = count * steps
        rows.append((count, appends / side.best_s, side.best_s / appends * 1e6))
    columns = ("conversations at once", "appends/s", "µs an append")
    return BenchSection(tables=(BenchTable(title="Several conversations at once", columns=columns, rows=tuple(rows)),))


def measure_dialogues(run: BenchRun) -> BenchSection:
    """Measure many short conversations, one after the other, in one data folder."""
    traces = list(run.dialogues[: run.sizes.dialogues])
    appends = [(trace.name, to_appends(trace)) for trace in traces]
    sides = {_HERE: AppendMeasurement()}
    _replay_here(run, appends, sides[_HERE], at_once=False)
    if run.peer:
        sides[_GRAPH] = AppendMeasurement()
        _replay_there(run, run.peer, traces, sides[_GRAPH], "graph")
    payload = sum(trace.payload_bytes() for trace in traces)
    steps = sum(len(of_trace) for _, of_trace in appends)
    blocks = sum(len(drafts) for _, of_trace in appends for drafts in of_trace)
    rows = [
        (
            name,
            len(traces),
            steps,
            blocks if name == _HERE else None,
            payload / 1000,
            side.best_s,
            steps / side.best_s,
            side.disk_bytes / 1000,
            side.disk_bytes / payload,
            side.written_bytes / payload,
        )
        for name, side in sides.items()
    ]
    columns = (
        "side",
        "dialogues",
        "steps",
        "blocks",
        "payload KB",
        "s",
        "steps/s",
        "disk KB",
        "disk/payload",
        "written/payload",
    )
    return BenchSection(
        tables=(BenchTable(title="Many short dialogues in one data folder", columns=columns, rows=tuple(rows)),),
        bars=(BenchTarget("dialogues: disk over payload", sides[_HERE].disk_bytes / payload, at_most=3),),
    )


_HERE: Final = "timeloom"
_GRAPH: Final = "LangGraph"
_OTHERS: Final[dict[str, peer.Mode]] = {"LangGraph, `put` alone": "put", "LangGraph, DeltaChannel (beta)": "delta"}


def _replay_in_turns(run: BenchRun, trace: Trace) -> dict[str, AppendMeasurement]:
    appends = to_appends(trace)
    sides = {_HERE: AppendMeasurement()}
    for n in range(run.sizes.replays):
        _replay_here(run, [(trace.name, appends)], sides[_HERE])
        sides[_HERE].syncs.add(_time_syncs(run, len(appends)))
        if not run.peer:
            continue
        _replay_there(run, run.peer, [trace], sides.setdefault(_GRAPH, AppendMeasurement()), "graph")
        if n < run.sizes.other_replays:
            for name, mode in _OTHERS.items():
                _replay_there(run, run.peer, [trace], sides.setdefault(name, AppendMeasurement()), mode)
    return sides


def _row(name: str, trace: Trace, side: AppendMeasurement) -> tuple[Cell, ...]:
    payload = trace.payload_bytes()
    steps = to_appends(trace)
    return (
        trace.name,
        name,
        payload / 1000,
        len(steps),
        len(steps) / side.best_s,
        sum(map(len, steps)) / side.best_s if name == _HERE else None,
        side.steps.first_s() * 1000,
        side.steps.last_s() * 1000,
        side.steps.last_median_s() * 1000,
        side.syncs.last_s() * 1000 if side.syncs.quickest_s else None,
        side.steps.growth(),
        side.disk_bytes / payload,
        side.written_bytes / payload,
    )


def _bars(trace: Trace, sides: dict[str, AppendMeasurement]) -> list[BenchTarget]:
    here = sides[_HERE]
    bars = [
        BenchTarget(f"{trace.name}: disk over payload", here.disk_bytes / trace.payload_bytes(), at_most=3),
        BenchTarget(f"{trace.name}: last tenth over first", here.steps.growth(), at_most=1.3),
    ]
    if there := sides.get(_GRAPH):
        faster = there.steps.last_s() / here.steps.last_s()
        bars.append(BenchTarget(f"{trace.name}: last tenth, times faster than LangGraph", faster, at_least=20))
    return bars


def _notes_there(side: AppendMeasurement) -> list[str]:
    return [
        f"LangGraph: {_format_pragmas(side.pragmas)}; a StateGraph with add_messages, a step is one super-step",
        'LangGraph: durability="sync", so that a step is durable before the next begins',
        "`put` alone: SqliteSaver.put of all messages for each step, without a graph and its pending writes",
        "first and last tenth are means over the steps, of each step the quickest run; last/first is by medians",
        "disk is after closing, in whole blocks of the file system; written is what the process handed to the system",
    ]


def _replay_here(
    run: BenchRun, work: Sequence[tuple[str, Sequence[Append]]], side: AppendMeasurement, *, at_once: bool = True
) -> None:
    """Append the work of each conversation in order; the conversations run concurrently or one by one."""
    with fresh_folder(run.work) as folder:
        written = written_bytes()
        started = time.perf_counter()
        seconds = asyncio.run(_append_all(folder, work, at_once=at_once))
        side.seconds.append(time.perf_counter() - started)
        side.written_bytes = written_bytes() - written
        side.disk_bytes = disk_bytes(folder)
        side.steps.add([each for of_conversation in seconds for each in of_conversation])


async def _append_all(
    folder: Path, work: Sequence[tuple[str, Sequence[Append]]], *, at_once: bool
) -> list[list[float]]:
    async with await SqliteStore.open(folder) as store:
        tasks = [_append_each(store, ConversationId(name), appends) for name, appends in work]
        return await asyncio.gather(*tasks) if at_once else [await task for task in tasks]


async def _append_each(store: SqliteStore, conversation: ConversationId, appends: Sequence[Append]) -> list[float]:
    views = Views()
    seconds: list[float] = []
    for drafts in appends:
        started = time.perf_counter()
        entries = await store.append(conversation, views.tail, drafts)
        fold(entries, views)
        seconds.append(time.perf_counter() - started)
    return seconds


def _time_syncs(run: BenchRun, count: int) -> list[float]:
    """Return the duration of each sync of a log that grows within its preallocated size, as in a commit."""
    sync = os.fdatasync if hasattr(os, "fdatasync") else os.fsync
    seconds: list[float] = []
    with fresh_folder(run.work) as folder:
        path, disk = folder / "log", Disk()
        disk.create(path)
        disk.preallocate(path, PREALLOCATED_WAL_BYTES)
        with path.open("r+b", buffering=0) as file:
            for n in range(count):
                os.pwrite(file.fileno(), bytes(_SYNCED_BYTES), n * _SYNCED_BYTES % PREALLOCATED_WAL_BYTES)
                started = time.perf_counter()
                sync(file.fileno())
                seconds.append(time.perf_counter() - started)
    return seconds


def _replay_there(run: BenchRun, python: Path, traces: list[Trace], side: AppendMeasurement, mode: peer.Mode) -> None:
    with fresh_folder(run.work) as folder:
        replayed = peer.replay_traces(python, folder, traces, mode)
        side.disk_bytes = disk_bytes(folder)
    side.seconds.append(replayed.seconds)
    side.written_bytes = replayed.written_bytes
    side.steps.add(replayed.step_seconds)
    side.pragmas = replayed.pragmas


def _equal_appends(count: int) -> list[Append]:
    """Return appends of one block each, all of the same size."""
    header = Draft(NO_TURN, _TS, ConversationStarted(tenant="bench", project="bench", user="somebody"))
    text = "x" * LONG_TEXT_CHARS
    return [[header], *([Draft(NO_TURN, _TS, Thinking(round=n, text=text))] for n in range(1, count))]


def _pragmas_here(run: BenchRun) -> str:
    """Return the settings of the writing connection, read from one that is opened in the same way."""
    with fresh_folder(run.work) as folder:
        asyncio.run(_append_all(folder, [], at_once=True))
        connection = ConnectionPool(folder / "journal.db", 1.0, "").writer()
        names = ("journal_mode", "synchronous")
        found = {name: str(connection.execute(f"PRAGMA {name}").fetchall()[0][0]) for name in names}
        connection.close()
    return _format_pragmas(found)


def _format_pragmas(pragmas: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pragmas.items())
