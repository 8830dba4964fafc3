"""Measures the cost of folding one more block into the views by conversation length."""

import statistics
import time
from typing import Final

from bench import synthetic
from bench.drafts import to_appends
from bench.measures import median_s
from bench.report import BenchSection, BenchTable, BenchTarget
from bench.settings import BenchRun
from timeloom.core.timeline import Entry, to_entry
from timeloom.core.view.views import fold
from timeloom.wire.snapshot import decode_views, encode_views

_MORE: Final = 200
"""Blocks added at each length, so that every kind of block is included."""


def measure_folds(run: BenchRun) -> BenchSection:
    """Add the same blocks to a short and to a long conversation."""
    longest = max(run.sizes.folded)
    trace = synthetic.session("folded", longest // 2 + 2 * _MORE, result_chars=100)
    drafts = [draft for drafts in to_appends(trace) for draft in drafts]
    more = drafts[longest : longest + _MORE]
    rows: list[tuple[int, float, float, float]] = []
    for length in run.sizes.folded:
        entries = [to_entry(draft, seq) for seq, draft in enumerate(drafts[:length], 1)]
        added = [to_entry(draft, seq) for seq, draft in enumerate(more, length + 1)]
        rows.append((length, *_measure(entries, added, run.sizes.fold_repeats)))
    columns = ("conversation of blocks", "one more block µs", "mean µs", "reading all that is visible µs a block")
    growth = rows[-1][1] / rows[0][1]
    bar = BenchTarget(f"one more block at {rows[-1][0]:,} over {rows[0][0]:,} blocks", growth, at_most=1.3)
    table = BenchTable(title="Folding one more block into the views", columns=columns, rows=tuple(rows))
    return BenchSection(tables=(table,), bars=(bar,))


def _measure(entries: list[Entry], added: list[Entry], repeats: int) -> tuple[float, float, float]:
    views = fold(entries)
    shown = views.visible.shown
    read_s = median_s(lambda: [seq for seq, stand in shown.items() if stand is None], repeats) / len(shown)
    snapshot = encode_views(views)
    seconds: list[float] = []
    for _ in range(repeats):
        again = decode_views(snapshot)
        assert again
        for entry in added:
            started = time.perf_counter()
            again.add(entry)
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) * 1e6, statistics.mean(seconds) * 1e6, read_s * 1e6
