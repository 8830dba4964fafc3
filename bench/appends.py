"""Appending: traces replayed step by step into the embedded store, and into LangGraph's beside it."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from timeloom.core.blocks import ConversationStarted, Thinking
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.core.view.views import Views, fold
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.connections import Connections

from bench import peer
from bench.drafts import Append, to_appends
from bench.measures import Deciles, disk_bytes, fresh_folder, written_bytes
from bench.report import Bar, Section, Table
from bench.settings import Run
from bench.trace import Trace

LONG_TEXT_CHARS: Final = 1000
_TS: Final = "2026-01-01T00:00:00Z"


class Side:
    """What several runs of one piece of work took on one side."""

    def __init__(self) -> None:
        self.deciles = Deciles()
        self.store_deciles = Deciles()
        self.seconds: list[float] = []
        self.disk_bytes = 0
        self.written_bytes = 0

    @property
    def best_s(self) -> float:
        """The quickest run: others had a machine that was busy with something else."""
        return min(self.seconds)


def measure_traces(run: Run) -> Section:
    """Each session on both sides in turns, so that a busy moment of the machine meets both."""
    rows: list[tuple[str | int | float | None, ...]] = []
    bars: list[Bar] = []
    pragmas: dict[str, str] = {}
    for trace in run.sessions:
        sides, pragmas = _replay_in_turns(run, trace)
        rows += [_row(name, trace, side) for name, side in sides.items()]
        bars += _bars(trace, sides)
    return Section(
        tables=(
            Table(
                title="Appending a session, one append for each step",
                columns=(
                    "session",
                    "side",
                    "payload KB",
                    "steps",
                    "steps/s",
                    "first tenth ms",
                    "last tenth ms",
                    "last/first",
                    "disk/payload",
                    "written/payload",
                ),
                rows=tuple(rows),
                notes=(
                    f"timeloom: {_pragmas_here(run)}; views folded after each append",
                    f"LangGraph: {_named(pragmas)}; StateGraph with add_messages, one super-step for each step, "
                    'durability="sync"; "saver" is the time inside SqliteSaver alone',
                ),
            ),
        ),
        bars=tuple(bars),
    )


def measure_long(run: Run) -> Section:
    """Many appends of one size into one conversation: does the cost grow with what is there?"""
    side = Side()
    appends = _alike(run.sizes.long_appends)
    for _ in range(run.sizes.long_runs):
        _replay_here(run, [("conv_long", appends)], side)
    payload = len(appends) * LONG_TEXT_CHARS
    row = (
        len(appends),
        len(appends) / side.best_s,
        side.deciles.first_s * 1e6,
        side.deciles.last_s * 1e6,
        side.deciles.growth,
        side.disk_bytes / payload,
        side.written_bytes / payload,
    )
    columns = ("appends", "appends/s", "first tenth µs", "last tenth µs", "last/first", "disk/payload", "written/payload")
    return Section(
        tables=(Table(title=f"One long conversation, {LONG_TEXT_CHARS} bytes an append", columns=columns, rows=(row,)),),
        bars=(Bar(f"{len(appends):,} appends: last tenth over first", side.deciles.growth, at_most=1.3),),
    )


def measure_concurrent(run: Run) -> Section:
    """Several conversations at once: appends that wait together share a sync."""
    rows: list[tuple[int, float, float]] = []
    steps = max(20, run.sizes.long_appends // 20)
    for count in (1, run.sizes.concurrent):
        side = Side()
        work = [(f"conv_{n}", _alike(steps)) for n in range(count)]
        for _ in range(run.sizes.long_runs):
            _replay_here(run, work, side)
        appends = count * steps
        rows.append((count, appends / side.best_s, side.best_s / appends * 1e6))
    columns = ("conversations at once", "appends/s", "µs an append")
    return Section(tables=(Table(title="Several conversations at once", columns=columns, rows=tuple(rows)),))


def measure_dialogues(run: Run) -> Section:
    """Many short conversations, one after the other, in one data folder."""
    traces = list(run.dialogues[: run.sizes.dialogues])
    sides = {"timeloom": Side()}
    _replay_here(run, [(trace.name, to_appends(trace)) for trace in traces], sides["timeloom"])
    if run.peer:
        sides["LangGraph"] = Side()
        _replay_there(run, run.peer, traces, sides["LangGraph"], delta=False)
    payload = sum(trace.payload_bytes() for trace in traces)
    steps = sum(1 for trace in traces for _ in trace.steps())
    rows = [
        (
            name,
            len(traces),
            steps,
            payload / 1000,
            side.best_s,
            steps / side.best_s,
            side.disk_bytes / 1000,
            side.disk_bytes / payload,
            side.written_bytes / payload,
        )
        for name, side in sides.items()
    ]
    columns = ("side", "dialogues", "steps", "payload KB", "s", "steps/s", "disk KB", "disk/payload", "written/payload")
    return Section(
        tables=(Table(title="Many short dialogues in one data folder", columns=columns, rows=tuple(rows)),),
        bars=(Bar("dialogues: disk over payload", sides["timeloom"].disk_bytes / payload, at_most=3),),
    )


_HERE: Final = "timeloom"
_THERE: Final = "LangGraph"
_DELTA: Final = "LangGraph, DeltaChannel (beta)"


def _replay_in_turns(run: Run, trace: Trace) -> tuple[dict[str, Side], dict[str, str]]:
    appends = to_appends(trace)
    sides = {_HERE: Side()}
    pragmas: dict[str, str] = {}
    for n in range(run.sizes.replays):
        _replay_here(run, [(trace.name, appends)], sides[_HERE])
        if run.peer:
            pragmas = _replay_there(run, run.peer, [trace], sides.setdefault(_THERE, Side()), delta=False)
            if n < 2:
                _replay_there(run, run.peer, [trace], sides.setdefault(_DELTA, Side()), delta=True)
    return sides, pragmas


def _row(name: str, trace: Trace, side: Side) -> tuple[str | int | float | None, ...]:
    payload = trace.payload_bytes()
    steps = sum(1 for _ in trace.steps())
    return (
        trace.name,
        name,
        payload / 1000,
        steps,
        steps / side.best_s,
        side.deciles.first_s * 1000,
        side.deciles.last_s * 1000,
        side.deciles.growth,
        side.disk_bytes / payload,
        side.written_bytes / payload,
    )


def _bars(trace: Trace, sides: dict[str, Side]) -> list[Bar]:
    here = sides[_HERE]
    bars = [
        Bar(f"{trace.name}: disk over payload", here.disk_bytes / trace.payload_bytes(), at_most=3),
        Bar(f"{trace.name}: last tenth over first", here.deciles.growth, at_most=1.3),
    ]
    if there := sides.get(_THERE):
        faster = there.deciles.last_s / here.deciles.last_s
        bars.append(Bar(f"{trace.name}: last tenth, times faster than LangGraph", faster, at_least=20))
    return bars


def _replay_here(run: Run, work: Sequence[tuple[str, Sequence[Append]]], side: Side) -> None:
    """Each conversation's appends one after the other; where there are several conversations, all at once."""
    with fresh_folder(run.work) as folder:
        written = written_bytes()
        started = time.perf_counter()
        seconds = asyncio.run(_append_all(folder, work))
        side.seconds.append(time.perf_counter() - started)
        side.written_bytes = written_bytes() - written
        side.disk_bytes = disk_bytes(folder)
        for of_conversation in seconds:
            side.deciles.add(of_conversation)


async def _append_all(folder: Path, work: Sequence[tuple[str, Sequence[Append]]]) -> list[list[float]]:
    async with await SqliteStore.open(folder) as store:
        return await asyncio.gather(*(_append_each(store, ConversationId(name), appends) for name, appends in work))


async def _append_each(store: SqliteStore, conversation: ConversationId, appends: Sequence[Append]) -> list[float]:
    views = Views()
    seconds: list[float] = []
    for drafts in appends:
        started = time.perf_counter()
        entries = await store.append(conversation, views.tail, drafts)
        fold(entries, views)
        seconds.append(time.perf_counter() - started)
    return seconds


def _replay_there(run: Run, python: Path, traces: list[Trace], side: Side, *, delta: bool) -> dict[str, str]:
    with fresh_folder(run.work) as folder:
        replayed = peer.replay(python, folder, traces, delta=delta)
        side.disk_bytes = disk_bytes(folder)
    side.seconds.append(replayed.seconds)
    side.written_bytes = replayed.written_bytes
    side.deciles.add(replayed.step_seconds)
    side.store_deciles.add(replayed.store_seconds)
    return replayed.pragmas


def _alike(count: int) -> list[Append]:
    """Appends of one block each, all of one size."""
    header = Draft(NO_TURN, _TS, ConversationStarted(tenant="bench", project="bench", user="somebody"))
    text = "x" * LONG_TEXT_CHARS
    return [[header], *([Draft(NO_TURN, _TS, Thinking(round=n, text=text))] for n in range(1, count))]


def _pragmas_here(run: Run) -> str:
    """The settings of the connection that writes, from one that is opened in the same way."""
    with fresh_folder(run.work) as folder:
        asyncio.run(_append_all(folder, []))
        connection = Connections(folder / "journal.db", 1.0, "").writer()
        names = ("journal_mode", "synchronous")
        found = {name: str(connection.execute(f"PRAGMA {name}").fetchall()[0][0]) for name in names}
        connection.close()
    return _named(found)


def _named(pragmas: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pragmas.items())
