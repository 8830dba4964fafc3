"""Measures what the hash chain adds to an append: one store takes turns, with the chain and without it."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.appends import LONG_TEXT_CHARS
from bench.measures import fresh_folder
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.settings import BenchRun
from timeloom.core.blocks import AnyBlock, ConversationStarted, Thinking
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.stores.batch import Batch, record_crc
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.tables.append_delete import EntryRow, EntryRows, make_entry_rows, place_before
from timeloom.wire.record import RECORD_VERSION

_TS: Final = "2026-01-01T00:00:00Z"
_CONVERSATION: Final = ConversationId("conv_chain")
_AT_ONCE: Final = (1, 5)
"""Blocks of one append: a single one, and as many as a round stores together."""

_UNCHAINED: Final = Thinking(round=2, text="x" * LONG_TEXT_CHARS)
_CHAINED: Final = Thinking(round=1, text="x" * LONG_TEXT_CHARS)


def measure_chain(run: BenchRun) -> BenchSection:
    """Append alternately with and without the chain, so that other load on the machine affects both."""
    rows: list[tuple[Cell, ...]] = []
    bars: list[BenchTarget] = []
    for blocks in _AT_ONCE:
        with fresh_folder(run.work) as folder:
            measured = asyncio.run(_append_in_turns(folder, max(10, run.sizes.long_appends // 2), blocks))
        on, off = (statistics.median(seconds) * 1e6 for seconds, _ in measured)
        cpu_on, cpu_off = (statistics.median(seconds) * 1e6 for _, seconds in measured)
        rows.append((blocks, len(measured[0][0]), off, on, on / off, cpu_off, cpu_on, cpu_on / cpu_off))
        bars.append(BenchTarget(f"append of {blocks}: with the chain over without, medians", on / off, at_most=1.03))
    columns = ("blocks", "appends", "without µs", "with µs", "ratio", "CPU without µs", "CPU with µs", "CPU ratio")
    title = f"The hash chain, {LONG_TEXT_CHARS} bytes a block"
    return BenchSection(tables=(BenchTable(title=title, columns=columns, rows=tuple(rows)),), bars=tuple(bars))


Times = tuple[list[float], list[float]]
"""Durations of appends, and their CPU times."""


async def _append_in_turns(folder: Path, count: int, blocks: int) -> tuple[Times, Times]:
    """Return the times with and without the chain."""
    header = ConversationStarted(tenant="bench", project="bench", user="somebody")
    sides = [_draft(_CHAINED)] * blocks, [_draft(_UNCHAINED)] * blocks
    times: tuple[Times, Times] = (([], []), ([], []))
    async with await _HalfChainedStore.open(folder) as store:
        await store.append(_CONVERSATION, 0, [_draft(header)])
        tail = 1
        for n in range(count):
            # Each goes first every other time: the second one finds warm caches.
            for side in (0, 1) if n % 2 else (1, 0):
                await _append_timed(store, tail, sides[side], times[side])
                tail += blocks
    return times


async def _append_timed(store: SqliteStore, tail: int, drafts: Sequence[Draft], times: Times) -> None:
    cpu, started = time.process_time(), time.perf_counter()
    await store.append(_CONVERSATION, tail, drafts)
    times[0].append(time.perf_counter() - started)
    times[1].append(time.process_time() - cpu)


def _draft(block: AnyBlock) -> Draft:
    return Draft(NO_TURN, _TS, block)


def _rows_of_half_a_chain(number: int, head: bytes | None, batch: Batch) -> EntryRows:
    """Return rows without salts and hashes for batches of `_UNCHAINED`; the next batch follows the last chained one."""
    if batch.entries[0].block is not _UNCHAINED:
        return make_entry_rows(number, head, batch)
    conversation, seq = batch.conversation, batch.expected_tail + 1
    rows: list[EntryRow] = []
    for record in batch.records:
        crc = record_crc(conversation, seq, record)
        rows.append((place_before(number) | seq, RECORD_VERSION, crc, record, None, None))
        seq += 1
    return rows, head


class _HalfChainedStore(SqliteStore):
    """A store with and without a chain. Two stores would differ by several percent for other reasons."""

    make_entry_rows = staticmethod(_rows_of_half_a_chain)
