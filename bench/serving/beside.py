"""Compares other agent servers with ours: the same model over HTTP, the same load, each server a process."""

import statistics
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.report import Cell, Section, Table
from bench.serving.plans import Server, Where
from bench.serving.processes import Process, ServingError, serving, started
from bench.serving.sizes import Sizes
from bench.serving.trials import COLUMNS, LATE_MS, Serve, Trial, answering, best, firsts, median_s, search, taken

CONVERSATIONS: Final = 100
"""New conversations at once, before memory is measured and during it: one-time setup does not count."""

CROWDS: Final = 3
"""Number of such batches while memory is measured."""


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    """Another agent server."""

    title: str
    server: Server
    program: Path
    share: float = 1.0
    """Share of the turns that is run, for servers whose turns are slow."""


_HERE: Final = Path(__file__).resolve()
_SIDES: Final = (
    _Side(title="Agno, AgentOS", server="agno", program=_HERE.with_name("agno_server.py")),
    _Side(
        title="LangGraph, the server for development",
        server="langgraph",
        program=_HERE.with_name("langgraph_server.py"),
        share=0.1,
    ),
)


class _Turns(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of a server with a model that does not pause."""

    started_mb: float
    conversation_kb: float
    first_s: float
    alone_per_s: float
    at_once_per_s: float
    at_once_s: float


class _Found(msgspec.Struct, frozen=True):
    """A row of the comparison."""

    title: str
    turns: _Turns
    trials: list[Trial]


def measure_beside(folder: Path, python: Path, sizes: Sizes, trials: list[Trial]) -> Section:
    """Measure all servers one after the other, ours first; `trials` are the stream measurements of ours."""
    ours = _Found("timeloom serve", _turns(folder, serving, sizes, 1.0), trials)
    others: list[_Found] = []
    missing: list[str] = []
    for side in _SIDES:
        serve = _served_by(python, side)
        try:
            turns = _turns(folder, serve, sizes, side.share)
            others.append(_Found(side.title, turns, search(folder, serve, sizes.others_held)))
        except ServingError as error:
            missing.append(f"left out, because it failed: {side.title} ({error})")
    compared = _compared([ours, *others], sizes.clients, missing)
    return Section(tables=(compared, *([_streams(others)] if others else [])))


def _served_by(python: Path, side: _Side) -> Serve:
    @contextmanager
    def serve(folder: Path, model_url: str) -> Generator[tuple[Process, Where]]:
        folder.mkdir()
        command = [str(python), "-I", "-W", "ignore", str(side.program), str(folder.resolve()), model_url]
        with started(command, log=folder.with_suffix(".log")) as process:
            yield process, Where(process.port, server=side.server)

    return serve


def _turns(folder: Path, serve: Serve, sizes: Sizes, share: float) -> _Turns:
    many = min(CONVERSATIONS, sizes.idle)
    times, turns_each = max(2, int(sizes.firsts * share)), max(2, int(sizes.turns_each * share))
    with answering(folder, serve) as (server, where, _):
        firsts(where, 2)
        started_bytes = server.memory_bytes()
        taken(where, many, 1)
        before_bytes = server.memory_bytes()
        for _ in range(CROWDS):
            taken(where, many, 1)
        after_bytes = server.memory_bytes()
        # Twice, because the speed of the machine changes from minute to minute.
        first_s = min(median_s(firsts(where, times)) for _ in range(2))
        alone = taken(where, 1, turns_each)
        at_once = taken(where, sizes.clients, turns_each)
    return _Turns(
        started_mb=started_bytes / 1024 / 1024,
        conversation_kb=(after_bytes - before_bytes) / (many * CROWDS) / 1024,
        first_s=first_s,
        alone_per_s=len(alone.each_s) / alone.took_s,
        at_once_per_s=len(at_once.each_s) / at_once.took_s,
        at_once_s=statistics.median(at_once.each_s),
    )


def _compared(found: list[_Found], clients: int, missing: list[str]) -> Table:
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
    rows = tuple(_row(one.title, one.turns, best(one.trials)) for one in found)
    return Table(title="Beside other agent servers", columns=columns, rows=rows, notes=notes)


def _row(title: str, turns: _Turns, held: Trial | None) -> tuple[Cell, ...]:
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


def _streams(others: list[_Found]) -> Table:
    rows = tuple((one.title, *trial.row()) for one in others for trial in one.trials)
    notes = ("KB each: over a server that has answered nobody yet, so that few carry what it sets up once",)
    title = "Conversations that stream at once on other agent servers"
    return Table(title=title, columns=("server", *COLUMNS), rows=rows, notes=notes)
