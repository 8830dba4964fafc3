"""Measures the server: concurrent streams, speed of turns and cost of connections."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.measures import fresh_folder
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.serving.beside import measure_beside
from bench.serving.plans import IdlePlan, IdleReport, LoadReady, ServerAddress
from bench.serving.processes import (
    ServingProcess,
    module_command,
    raise_descriptor_limit,
    serve_timeloom,
    start_load,
    start_process,
)
from bench.serving.sizes import CONNECTIONS, ServingSizes, sizes_for
from bench.serving.trials import (
    COLUMNS,
    EVERY_MS,
    LATE_MS,
    StreamTrial,
    best_trial,
    expect_report,
    median_s,
    run_turns,
    search_limit,
    serve_answers,
    time_first_deltas,
)
from bench.settings import BenchRun

STREAMS: Final = 300
FIRST_RATIO: Final = 3.0

OWN_DESCRIPTORS: Final = 500
"""Descriptors that a process needs besides its connections."""

BEATS_S: Final = 16.0
"""Slightly longer than the heartbeat interval of an idle stream."""


def measure_server(run: BenchRun) -> BenchSection:
    """Measure real processes: `timeloom serve`, the model over HTTP, and the load generator."""
    sizes = sizes_for(run)
    raise_descriptor_limit(sizes.idle + OWN_DESCRIPTORS)
    with fresh_folder(run.work) as folder:
        trials = search_limit(folder, serve_timeloom, sizes.held)
        parts = [
            _held_section(trials),
            _turns_section(folder, sizes),
            _first_delta_section(folder, sizes),
            _idle_section(folder, sizes),
        ]
        if run.peer:
            parts.append(measure_beside(folder, run.peer, sizes, trials))
    return BenchSection(
        tables=tuple(table for part in parts for table in part.tables),
        bars=tuple(bar for part in parts for bar in part.bars),
    )


def _held_section(trials: list[StreamTrial]) -> BenchSection:
    """Return the results for concurrent streams."""
    notes = (
        f"each has {1000 / EVERY_MS:g} deltas a second; from the model's writing of a delta to its arrival",
        "crowd: how late the clients' own process was, which is part of the figures before",
        "server CPU: of one core, while all stream; KB each: memory of the server by conversation, over an idle server",
        "load: of the machine in the last minute, by these processes and all others",
    )
    rows = tuple(trial.row() for trial in trials)
    table = BenchTable(title="Conversations that stream at once", columns=COLUMNS, rows=rows, notes=notes)
    name = f"server: conversations at once with p99 of the added delay below {LATE_MS:g} ms"
    found = best_trial(trials)
    return BenchSection(tables=(table,), bars=(BenchTarget(name, found.streams if found else 0, at_least=STREAMS),))


def _turns_section(folder: Path, sizes: ServingSizes) -> BenchSection:
    """Measure turns without pauses: the first of a conversation, and later ones."""
    rows: list[tuple[Cell, ...]] = []
    with serve_answers(folder, serve_timeloom) as (_, where, _):
        count = sizes.clients * sizes.turns_each
        for what, clients in (("one client", 1), ("at once", sizes.clients)):
            turns = run_turns(where, clients, sizes.turns_each)
            median_ms = statistics.median(turns.each_s) * 1000
            rows.append((what, clients, len(turns.each_s), len(turns.each_s) / turns.took_s, median_ms))
        new = [run_turns(where, sizes.clients, 1) for _ in range(sizes.turns_each)]
        took_s = sum(turns.took_s for turns in new)
        median_ms = statistics.median(one for turns in new for one in turns.each_s) * 1000
        rows.append(("at once, each a new conversation", sizes.clients, count, count / took_s, median_ms))
    columns = ("how", "clients", "turns", "turns/s", "median ms")
    notes = ("a turn is one round: a message, a reply of one delta, and the end; every step of it synced to disk",)
    return BenchSection(tables=(BenchTable(title="Turns", columns=columns, rows=tuple(rows), notes=notes),))


def _first_delta_section(folder: Path, sizes: ServingSizes) -> BenchSection:
    """Measure the first delta of a new conversation, compared with bare Starlette."""
    with serve_answers(folder, serve_timeloom) as (_, where, model_url):
        time_first_deltas(where, 2)
        ours = time_first_deltas(where, sizes.firsts)
        said = msgspec.json.encode(ours.events).decode()
        with start_process(module_command("bench.serving.bare", model_url), stdin_text=said) as bare:
            echo = time_first_deltas(ServerAddress(bare.port), sizes.firsts, "/echo")
            relay = time_first_deltas(ServerAddress(bare.port), sizes.firsts, "/relay")
        # Twice, because the speed of the machine changes from minute to minute.
        ours_s = min(median_s(ours), median_s(time_first_deltas(where, sizes.firsts)))
    echo_s, relay_s = median_s(echo), median_s(relay)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("timeloom serve", ours_s * 1000, ours_s / echo_s, ours_s / relay_s),
        ("bare Starlette, the same bytes", echo_s * 1000, 1.0, None),
        ("bare Starlette, asking the same model", relay_s * 1000, None, 1.0),
    )
    columns = ("side", "median ms", "over the echo", "over the relay")
    notes = (
        "from the wish to connect to the first delta, one request after the other",
        "the echo asks no model and stores nothing; the relay asks the model by httpx2 and stores nothing",
    )
    bar = BenchTarget("server: time to the first delta over a bare echo", ours_s / echo_s, at_most=FIRST_RATIO)
    return BenchSection(
        tables=(BenchTable(title="The first delta", columns=columns, rows=rows, notes=notes),), bars=(bar,)
    )


def _idle_section(folder: Path, sizes: ServingSizes) -> BenchSection:
    """Measure the memory of idle connections and of their conversations."""
    with serve_answers(folder, serve_timeloom) as (server, where, _):
        run_turns(where, 1, 1)
        bare_bytes = server.memory_bytes()
        names = run_turns(where, min(100, sizes.idle), 1).conversations
        open_bytes = server.memory_bytes()
        stayed, beside_bytes = _hold_idle(server, where, sizes, names)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("conversations after a turn", len(names), None, (open_bytes - bare_bytes) / len(names) / 1024),
        ("connections that hear them", sizes.idle, stayed.alive, (beside_bytes - open_bytes) / sizes.idle / 1024),
    )
    columns = ("idle", "number", "alive at the end", "KB each")
    notes = ("alive: still connected, and told so by a heartbeat, which comes every 15 s",)
    wanted = min(CONNECTIONS, sizes.idle)
    bar = BenchTarget("server: idle connections held", stayed.alive, at_least=wanted)
    return BenchSection(tables=(BenchTable(title="What waits", columns=columns, rows=rows, notes=notes),), bars=(bar,))


def _hold_idle(
    server: ServingProcess, where: ServerAddress, sizes: ServingSizes, names: Sequence[str]
) -> tuple[IdleReport, int]:
    stay_s = BEATS_S if sizes.stays else 0.0
    plan = IdlePlan(where=where, streams=sizes.idle, conversations=tuple(names), stay_s=stay_s)
    with start_load(plan) as crowd:
        expect_report(crowd.receive(), LoadReady)
        memory_bytes = server.memory_bytes()
        return expect_report(crowd.receive(), IdleReport), memory_bytes
