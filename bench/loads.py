"""Measures the time until a stored conversation's views are loaded."""

import asyncio
import statistics
import time
from pathlib import Path
from typing import Final

import msgspec

from bench import peer, synthetic
from bench.drafts import to_appends
from bench.measures import fresh_folder, timed_s
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.settings import BenchRun
from bench.traces import Trace, group_by_turns
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Draft
from timeloom.core.view.views import fold
from timeloom.stores.sqlite import SqliteStore
from timeloom.wire.record import decode_record, encode_record
from timeloom.wire.snapshot import SNAPSHOT_VERSION, decode_views, encode_views

_CONVERSATION: Final = ConversationId("conv_loaded")
_BATCH: Final = 1000
_TAIL: Final = 100
"""Entries after the snapshot."""


class _LoadTimes(msgspec.Struct):
    read_s: list[float] = []
    decode_s: list[float] = []
    fold_s: list[float] = []
    total_s: list[float] = []
    cpu_ratio: list[float] = []
    """The CPU time from opening to views over that of decoding just before, which other programs affect less."""
    snapshot_s: list[float] = []


def measure_loads(run: BenchRun) -> BenchSection:
    """Measure opening a store and folding a conversation of each length, from the start and from a snapshot."""
    rows: list[tuple[Cell, ...]] = []
    bars: list[BenchTarget] = []
    for blocks in run.sizes.loaded:
        trace = _conversation(blocks)
        times, snapshot_bytes = _measure_timeloom(run, trace, blocks)
        rows.append(_row(trace, blocks, times, snapshot_bytes))
        ratio = statistics.median(times.total_s) / statistics.median(times.decode_s)
        bars.append(BenchTarget(f"load of {blocks:,} blocks over decoding them", ratio, at_most=3))
        if run.peer and blocks in run.sizes.peer_loaded:
            rows.append(_measure_langgraph(run, run.peer, trace, "LangGraph, the same conversation"))
            more = synthetic.session("loaded", blocks)
            rows.append(_measure_langgraph(run, run.peer, more, "LangGraph, as many messages"))
    columns = (
        "side",
        "blocks or messages",
        "payload MB",
        "read ms",
        "decode ms",
        "fold ms",
        "open to views ms",
        "from snapshot ms",
        "snapshot KB",
        "CPU over decoding",
    )
    notes = (
        "read: the store's load, decoding included",
        f"from snapshot: opening the store, reading the snapshot and folding the {_TAIL} entries after it",
        "CPU over decoding: the CPU time of opening, reading, folding and closing over that of decoding",
        "LangGraph: open and get_state; one of its messages holds what two to three blocks hold",
        "files are in the system's cache",
    )
    table = BenchTable(title="Loading a conversation", columns=columns, rows=tuple(rows), notes=notes)
    return BenchSection(tables=(table,), bars=tuple(bars[:1]))


def _conversation(blocks: int) -> Trace:
    """Return a synthetic session of at least that many blocks."""
    steps = list(synthetic.session("loaded", blocks // 2).steps())
    length = 0
    for n, drafts in enumerate(to_appends(group_by_turns("loaded", steps)), 1):
        length += len(drafts)
        if length >= blocks:
            return group_by_turns("loaded", steps[:n])
    raise AssertionError(f"a session of {blocks // 2} steps has only {length} blocks")


def _measure_timeloom(run: BenchRun, trace: Trace, blocks: int) -> tuple[_LoadTimes, int]:
    drafts = [draft for drafts in to_appends(trace) for draft in drafts][:blocks]
    with fresh_folder(run.work) as folder:
        return asyncio.run(_measure(folder, drafts, run.sizes.repeats))


def _row(trace: Trace, blocks: int, times: _LoadTimes, snapshot_bytes: int) -> tuple[Cell, ...]:
    parts = (times.read_s, times.decode_s, times.fold_s, times.total_s, times.snapshot_s)
    medians = (statistics.median(part) * 1000 for part in parts)
    cpu_ratio = statistics.median(times.cpu_ratio)
    return ("timeloom", blocks, trace.payload_bytes() / 1e6, *medians, snapshot_bytes / 1000, cpu_ratio)


async def _measure(folder: Path, drafts: list[Draft], repeats: int) -> tuple[_LoadTimes, int]:
    async with await SqliteStore.open(folder) as store:
        for at in range(0, len(drafts), _BATCH):
            await store.append(_CONVERSATION, at, drafts[at : at + _BATCH])
        entries = await store.load(_CONVERSATION)
        snapshot = encode_views(fold(entries[:-_TAIL]))
        await store.save_snapshot(_CONVERSATION, len(entries[:-_TAIL]), SNAPSHOT_VERSION, snapshot)
    records = [encode_record(entry) for entry in entries]
    times = _LoadTimes()
    for _ in range(repeats):
        times.fold_s.append(timed_s(lambda: fold(entries)))
        began = time.process_time()
        times.decode_s.append(timed_s(lambda: [decode_record(record, seq) for seq, record in enumerate(records, 1)]))
        decoded = time.process_time()
        await _open_and_fold(folder, times)
        times.cpu_ratio.append((time.process_time() - decoded) / (decoded - began))
        await _open_from_snapshot(folder, times)
    return times, len(snapshot)


async def _open_and_fold(folder: Path, times: _LoadTimes) -> None:
    started = time.perf_counter()
    async with await SqliteStore.open(folder) as store:
        opened = time.perf_counter()
        entries = await store.load(_CONVERSATION)
        times.read_s.append(time.perf_counter() - opened)
        fold(entries)
        times.total_s.append(time.perf_counter() - started)


async def _open_from_snapshot(folder: Path, times: _LoadTimes) -> None:
    started = time.perf_counter()
    async with await SqliteStore.open(folder) as store:
        found = await store.load_snapshot(_CONVERSATION, SNAPSHOT_VERSION)
        assert found
        seq, data = found
        fold(await store.load(_CONVERSATION, after=seq), decode_views(data))
        times.snapshot_s.append(time.perf_counter() - started)


def _measure_langgraph(run: BenchRun, python: Path, trace: Trace, name: str) -> tuple[Cell, ...]:
    with fresh_folder(run.work) as folder:
        loaded = peer.load_trace(python, folder, trace, run.sizes.repeats)
    seconds = statistics.median(loaded.seconds)
    return (name, loaded.messages, trace.payload_bytes() / 1e6, None, None, None, seconds * 1000, None, None, None)
