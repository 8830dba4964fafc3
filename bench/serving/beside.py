"""Compares other agent servers with ours: the same model over HTTP, the same load, each server a process."""

import statistics
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.report import BenchSection, BenchTable, Cell
from bench.serving.plans import Server, ServerAddress
from bench.serving.processes import ServingError, ServingProcess, serve_timeloom, start_process
from bench.serving.sizes import ServingSizes
from bench.serving.trials import (
    COLUMNS,
    LATE_MS,
    Serve,
    StreamTrial,
    best_trial,
    median_s,
    run_turns,
    search_limit,
    serve_answers,
    time_first_deltas,
)

CONVERSATIONS: Final = 100
"""New conversations at once, before memory is measured and during it: one-time setup does not count."""

CROWDS: Final = 3
"""Number of such batches while memory is measured."""


class _OtherServer(msgspec.Struct, frozen=True, kw_only=True):
    """Another agent server."""

    title: str
    server: Server
    program: Path
    share: float = 1.0
    """Share of the turns that is run, for servers whose turns are slow."""


_HERE: Final = Path(__file__).resolve()
_SIDES: Final = (
    _OtherServer(title="Agno, AgentOS", server="agno", program=_HERE.with_name("agno_server.py")),
    _OtherServer(
        title="LangGraph, the server for development",
        server="langgraph",
        program=_HERE.with_name("langgraph_server.py"),
        share=0.1,
    ),
)


class _TurnMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of a server with a model that does not pause."""

    started_mb: float
    conversation_kb: float
    first_s: float
    alone_per_s: float
    at_once_per_s: float
    at_once_s: float


class _ServerResult(msgspec.Struct, frozen=True):
    """A row of the comparison."""

    title: str
    turns: _TurnMeasurement
    trials: list[StreamTrial]


def measure_beside(folder: Path, python: Path, sizes: ServingSizes, trials: list[StreamTrial]) -> BenchSection:
    """Measure all servers one after the other, ours first; `trials` are the stream measurements of ours."""
    ours = _ServerResult("timeloom serve", _turns(folder, serve_timeloom, sizes, 1.0), trials)
    others: list[_ServerResult] = []
    missing: list[str] = []
    for side in _SIDES:
        serve = _make_serve(python, side)
        try:
            turns = _turns(folder, serve, sizes, side.share)
            others.append(_ServerResult(side.title, turns, search_limit(folder, serve, sizes.others_held)))
        except ServingError as error:
            missing.append(f"left out, because it failed: {side.title} ({error})")
    compared = _comparison_table([ours, *others], sizes.clients, missing)
    return BenchSection(tables=(compared, *([_streams_table(others)] if others else [])))


def _make_serve(python: Path, side: _OtherServer) -> Serve:
    @contextmanager
    def serve(folder: Path, model_url: str) -> Generator[tuple[ServingProcess, ServerAddress]]:
        folder.mkdir()
        command = [str(python), "-I", "-W", "ignore", str(side.program), str(folder.resolve()), model_url]
        with start_process(command, log=folder.with_suffix(".log")) as process:
            yield process, ServerAddress(process.port, server=side.server)

    return serve


def _turns(folder: Path, serve: Serve, sizes: ServingSizes, share: float) -> _TurnMeasurement:
    many = min(CONVERSATIONS, sizes.idle)
    times, turns_each = max(2, int(sizes.firsts * share)), max(2, int(sizes.turns_each * share))
    with serve_answers(folder, serve) as (server, where, _):
        time_first_deltas(where, 2)
        started_bytes = server.memory_bytes()
        run_turns(where, many, 1)
        before_bytes = server.memory_bytes()
        for _ in range(CROWDS):
            run_turns(where, many, 1)
        after_bytes = server.memory_bytes()
        # Twice, because the speed of the machine changes from minute to minute.
        first_s = min(median_s(time_first_deltas(where, times)) for _ in range(2))
        alone = run_turns(where, 1, turns_each)
        at_once = run_turns(where, sizes.clients, turns_each)
    return _TurnMeasurement(
        started_mb=started_bytes / 1024 / 1024,
        conversation_kb=(after_bytes - before_bytes) / (many * CROWDS) / 1024,
        first_s=first_s,
        alone_per_s=len(alone.each_s) / alone.took_s,
        at_once_per_s=len(at_once.each_s) / at_once.took_s,
        at_once_s=statistics.median(at_once.each_s),
    )


def _comparison_table(found: list[_ServerResult], clients: int, missing: list[str]) -> BenchTable:
    columns = (
        "server",
        "first delta ms",
        "turns/s, 1 client",
        f"turns/s, {clients} clients",
        f"median ms, {clients} clients",
        "streams at once",
        "their p99 ms",
        "MB at first",
        "KB a conversation",
    )
    notes = (
        "first delta: of a new conversation, from the wish to connect; one after the other, the median",
        f"streams: the most that were tried with p99 of the added delay below {LATE_MS:g} ms",
        "MB at first: after two turns; KB: what each conversation of one turn adds while nobody is connected",
        "LangGraph's server for development looks for new runs every half second, for which deltas and turns wait",
        *missing,
    )
    rows = tuple(_row(one.title, one.turns, best_trial(one.trials)) for one in found)
    return BenchTable(title="Beside other agent servers", columns=columns, rows=rows, notes=notes)


def _row(title: str, turns: _TurnMeasurement, held: StreamTrial | None) -> tuple[Cell, ...]:
    return (
        title,
        turns.first_s * 1000,
        turns.alone_per_s,
        turns.at_once_per_s,
        turns.at_once_s * 1000,
        held.streams if held else 0,
        held.held.p99_ms if held else None,
        turns.started_mb,
        turns.conversation_kb,
    )


def _streams_table(others: list[_ServerResult]) -> BenchTable:
    rows = tuple((one.title, *trial.row()) for one in others for trial in one.trials)
    notes = ("KB each: over a server that has answered nobody yet, so that few carry what it sets up once",)
    title = "Conversations that stream at once on other agent servers"
    return BenchTable(title=title, columns=("server", *COLUMNS), rows=rows, notes=notes)
