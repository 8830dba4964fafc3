"""Measures what the hash chain adds to an append: two stores take turns, one with the chain and one without."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from bench.appends import LONG_TEXT_CHARS
from bench.measures import fresh_folder
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.settings import BenchRun
from timeloom.core.blocks import ConversationStarted, Thinking
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.stores import batch
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.tables import append_delete

_TS: Final = "2026-01-01T00:00:00Z"
_CONVERSATION: Final = ConversationId("conv_chain")
_AT_ONCE: Final = (1, 5)
"""Blocks of one append: a single one, and as many as a round stores together."""


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
    header = Draft(NO_TURN, _TS, ConversationStarted(tenant="bench", project="bench", user="somebody"))
    drafts = [Draft(NO_TURN, _TS, Thinking(round=1, text="x" * LONG_TEXT_CHARS))] * blocks
    times: tuple[Times, Times] = (([], []), ([], []))
    async with await SqliteStore.open(folder / "on") as with_chain, await SqliteStore.open(folder / "off") as without:
        for store in (with_chain, without):
            await store.append(_CONVERSATION, 0, [header])
        for n in range(count):
            tail = 1 + n * blocks
            # Each goes first every other time: the second one finds warm caches.
            for side in (0, 1) if n % 2 else (1, 0):
                with contextlib.nullcontext() if side == 0 else _no_chain():
                    await _append_timed((with_chain, without)[side], tail, drafts, times[side])
    return times


async def _append_timed(store: SqliteStore, tail: int, drafts: Sequence[Draft], times: Times) -> None:
    cpu, started = time.process_time(), time.perf_counter()
    await store.append(_CONVERSATION, tail, drafts)
    times[0].append(time.perf_counter() - started)
    times[1].append(time.process_time() - cpu)


@contextlib.contextmanager
def _no_chain() -> Generator[None]:
    """Store NULL in the columns of the chain and compute no hashes, as before there was one."""
    salting, linking, first = batch.salt_records, append_delete.link_entries, append_delete.hash_before_first
    patched = cast(Any, batch), cast(Any, append_delete)
    patched[0].salt_records = lambda records: ((None,) * len(records), ())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    patched[1].link_entries = lambda _before, _seq, _contents, records: ([None] * len(records), None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    patched[1].hash_before_first = lambda _conversation, _seq: b""  # pyright: ignore[reportUnknownLambdaType]
    try:
        yield
    finally:
        patched[0].salt_records = salting
        patched[1].link_entries, patched[1].hash_before_first = linking, first
