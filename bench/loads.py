"""Loading: how long it takes until a stored conversation's views are there."""

import asyncio
import statistics
import time
from pathlib import Path
from typing import Final

import msgspec

from bench import peer, synthetic
from bench.drafts import to_appends
from bench.measures import fresh_folder, timed_s
from bench.report import Cell, Section, Table
from bench.settings import Run
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Draft
from timeloom.core.view.views import fold
from timeloom.stores.sqlite import SqliteStore
from timeloom.wire.record import decode_record, encode_record
from timeloom.wire.snapshot import SNAPSHOT_VERSION, decode_views, encode_views

_CONVERSATION: Final = ConversationId("conv_loaded")
_BATCH: Final = 1000
_TAIL: Final = 100
"""Entries that came after the snapshot was made."""


class _Times(msgspec.Struct):
    read_s: list[float] = []
    decode_s: list[float] = []
    fold_s: list[float] = []
    total_s: list[float] = []
    snapshot_s: list[float] = []


def measure_loads(run: Run) -> Section:
    """Opening a store and folding a conversation of each length, from nothing and from a snapshot."""
    rows: list[tuple[Cell, ...]] = []
    for blocks in run.sizes.loaded:
        drafts = _drafts(blocks)
        with fresh_folder(run.work) as folder:
            times, snapshot_bytes = asyncio.run(_measure(folder, drafts, run.sizes.repeats))
        parts = (times.read_s, times.decode_s, times.fold_s, times.total_s, times.snapshot_s)
        rows.append(("timeloom", blocks, *(statistics.median(part) * 1000 for part in parts), snapshot_bytes / 1000))
    if run.peer:
        rows += [_there(run, run.peer, messages) for messages in run.sizes.peer_loaded]
    columns = (
        "side",
        "blocks",
        "read ms",
        "decode ms",
        "fold ms",
        "open to views ms",
        "from snapshot ms",
        "snapshot KB",
    )
    notes = (
        "read: the store's load, decoding included",
        f"from snapshot: opening the store, reading the snapshot and folding the {_TAIL} entries after it",
        "LangGraph: messages instead of blocks; open and get_state",
        "files are in the system's cache",
    )
    return Section(tables=(Table(title="Loading a conversation", columns=columns, rows=tuple(rows), notes=notes),))


def _drafts(blocks: int) -> list[Draft]:
    trace = synthetic.session("loaded", blocks // 2)
    drafts = [draft for drafts in to_appends(trace) for draft in drafts]
    assert len(drafts) >= blocks
    return drafts[:blocks]


async def _measure(folder: Path, drafts: list[Draft], repeats: int) -> tuple[_Times, int]:
    async with await SqliteStore.open(folder) as store:
        for at in range(0, len(drafts), _BATCH):
            await store.append(_CONVERSATION, at, drafts[at : at + _BATCH])
        entries = await store.load(_CONVERSATION)
        snapshot = encode_views(fold(entries[:-_TAIL]))
        await store.save_snapshot(_CONVERSATION, len(entries[:-_TAIL]), SNAPSHOT_VERSION, snapshot)
    records = [encode_record(entry) for entry in entries]
    times = _Times()
    for _ in range(repeats):
        times.decode_s.append(timed_s(lambda: [decode_record(record, seq) for seq, record in enumerate(records, 1)]))
        times.fold_s.append(timed_s(lambda: fold(entries)))
        await _open_and_fold(folder, times)
        await _open_from_snapshot(folder, times)
    return times, len(snapshot)


async def _open_and_fold(folder: Path, times: _Times) -> None:
    started = time.perf_counter()
    async with await SqliteStore.open(folder) as store:
        opened = time.perf_counter()
        entries = await store.load(_CONVERSATION)
        times.read_s.append(time.perf_counter() - opened)
        fold(entries)
        times.total_s.append(time.perf_counter() - started)


async def _open_from_snapshot(folder: Path, times: _Times) -> None:
    started = time.perf_counter()
    async with await SqliteStore.open(folder) as store:
        found = await store.load_snapshot(_CONVERSATION, SNAPSHOT_VERSION)
        assert found
        seq, data = found
        fold(await store.load(_CONVERSATION, after=seq), decode_views(data))
        times.snapshot_s.append(time.perf_counter() - started)


def _there(run: Run, python: Path, messages: int) -> tuple[Cell, ...]:
    trace = synthetic.session("loaded", messages)
    with fresh_folder(run.work) as folder:
        loaded = peer.load(python, folder, trace, run.sizes.repeats)
    return ("LangGraph", loaded.messages, None, None, None, statistics.median(loaded.seconds) * 1000, None, None)
