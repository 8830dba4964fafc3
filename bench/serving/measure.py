"""The server: how many conversations stream at once, how fast turns are, and what connections cost."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bench.endpoints import served
from bench.measures import fresh_folder
from bench.report import Bar, Cell, Section, Table
from bench.serving.plans import First, Firsts, Held, Hold, Idle, Ready, Report, Stayed, Take, Taken, Where
from bench.serving.processes import Process, gathered, most_descriptors, serving, started
from bench.settings import FULL, QUICK, Run
from timeloom.core.stream.channels import DECISION

R = TypeVar("R", bound=Report)

EVERY_MS: Final = 50
"""Twenty deltas a second, about as fast as a large model writes."""

LATE_MS: Final = 50.0
STREAMS: Final = 300
FIRST_RATIO: Final = 3.0
CONNECTIONS: Final = 10_000

STARTS_PER_S: Final = 30
"""How many conversations begin in a second while a crowd gathers: their turns are not what is measured."""

OWN_DESCRIPTORS: Final = 500
"""What a process needs beside its connections."""

TEXT: Final = "Yes, of course."

BEATS_S: Final = 16.0
"""A little more than the pause after which an idle stream says that it is there."""


class _Sizes(msgspec.Struct, frozen=True, kw_only=True):
    streams: tuple[int, ...]
    hold_s: float
    clients: int
    turns_each: int
    firsts: int
    idle: int


_FULL: Final = _Sizes(
    streams=(50, 100, 200, 300, 400, 500, 600), hold_s=10, clients=16, turns_each=40, firsts=100, idle=CONNECTIONS
)
_QUICK: Final = _Sizes(streams=(50, 100, 300), hold_s=4, clients=8, turns_each=10, firsts=30, idle=1_000)
_TINY: Final = _Sizes(streams=(2,), hold_s=0.5, clients=2, turns_each=2, firsts=2, idle=4)


def measure_server(run: Run) -> Section:
    """Everything against real processes: `timeloom serve`, the model behind HTTP, and a crowd."""
    sizes = _FULL if run.sizes is FULL else _QUICK if run.sizes is QUICK else _TINY
    most_descriptors(sizes.idle + OWN_DESCRIPTORS)
    with fresh_folder(run.work) as folder:
        parts = (_held(folder, sizes), _turns(folder, sizes), _first_deltas(folder, sizes), _idle(folder, sizes))
    return Section(
        tables=tuple(table for part in parts for table in part.tables),
        bars=tuple(bar for part in parts for bar in part.bars),
    )


def _held(folder: Path, sizes: _Sizes) -> Section:
    """More and more conversations at once, until the deltas of one crowd are late twice."""
    rows: list[tuple[Cell, ...]] = []
    most = 0
    for streams in sizes.streams:
        tries = [_held_once(folder, streams, sizes.hold_s)]
        if not _in_time(tries[0][0]):
            tries.append(_held_once(folder, streams, sizes.hold_s))
        for held, cpu, active_kb in tries:
            load = os.getloadavg()[0]
            rows.append((streams, held.p50_ms, held.p99_ms, held.worst_ms, held.own_p99_ms, cpu, active_kb, load))
        if not any(_in_time(held) for held, _, _ in tries):
            break
        most = streams
    columns = ("streams", "median ms", "p99 ms", "worst ms", "crowd p99 ms", "server CPU", "KB each", "load")
    notes = (
        f"each has {1000 / EVERY_MS:g} deltas a second; from the model's writing of a delta to its arrival",
        "crowd: how late the clients' own process was, which is part of the figures before",
        "server CPU: of one core, while all stream; KB each: memory of the server by conversation, over an idle server",
        "load: of the machine in the last minute, by these processes and all others",
    )
    table = Table(title="Conversations that stream at once", columns=columns, rows=tuple(rows), notes=notes)
    name = f"server: conversations at once with p99 of the added delay below {LATE_MS:g} ms"
    return Section(tables=(table,), bars=(Bar(name, most, at_least=STREAMS),))


def _in_time(held: Held) -> bool:
    # What did not come at all is as late as can be.
    return held.p99_ms < LATE_MS and held.deltas >= 0.99 * held.expected


def _held_once(folder: Path, streams: int, hold_s: float) -> tuple[Held, float, float]:
    ramp_s = max(1.0 if streams < STARTS_PER_S else 3.0, streams / STARTS_PER_S)
    with (
        fresh_folder(folder) as data,
        started(["bench.serving.stamping"]) as model,
        serving(data / "data", model.url) as (server, where),
    ):
        before_bytes = server.memory_bytes()
        plan = Hold(where=where, streams=streams, ramp_s=ramp_s, hold_s=hold_s, every_ms=EVERY_MS)
        with gathered(plan) as crowd:
            _expect(crowd.hear(), Ready)
            each_kb = (server.memory_bytes() - before_bytes) / streams / 1024
            before_s = server.cpu_s()
            held = _expect(crowd.hear(), Held)
            # The rest of what counts, and the second after it.
            cpu = (server.cpu_s() - before_s) / (hold_s / 2 + 1)
    return held, cpu, each_kb


def _turns(folder: Path, sizes: _Sizes) -> Section:
    """Turns without a pause: the first of a conversation, and those after it."""
    rows: list[tuple[Cell, ...]] = []
    with fresh_folder(folder) as data, served(data, [_ANSWER]) as url, serving(data / "data", _root(url)) as (_, where):
        count = sizes.clients * sizes.turns_each
        for what, clients, each in (("one client", 1, sizes.turns_each), ("at once", sizes.clients, sizes.turns_each)):
            taken = _taken(Take(where=where, clients=clients, turns_each=each))
            median_ms = statistics.median(taken.each_s) * 1000
            rows.append((what, clients, len(taken.each_s), len(taken.each_s) / taken.took_s, median_ms))
        new = [_taken(Take(where=where, clients=sizes.clients, turns_each=1)) for _ in range(sizes.turns_each)]
        took_s = sum(taken.took_s for taken in new)
        median_ms = statistics.median(one for taken in new for one in taken.each_s) * 1000
        rows.append(("at once, each a new conversation", sizes.clients, count, count / took_s, median_ms))
    columns = ("how", "clients", "turns", "turns/s", "median ms")
    notes = ("a turn is one round: a message, a reply of one delta, and the end; every step of it synced to disk",)
    return Section(tables=(Table(title="Turns", columns=columns, rows=tuple(rows), notes=notes),))


def _first_deltas(folder: Path, sizes: _Sizes) -> Section:
    """The first delta of a new conversation, beside bare Starlette."""
    with fresh_folder(folder) as data, served(data, [_ANSWER]) as url, serving(data / "data", _root(url)) as (_, where):
        model_url = _root(url)
        _firsts(where, "/chat/home/bench", 2)
        ours = _firsts(where, "/chat/home/bench", sizes.firsts)
        said = msgspec.json.encode(ours.events).decode()
        with started(["bench.serving.bare", model_url], said=said) as bare:
            echo = _firsts(Where(bare.port), "/echo", sizes.firsts)
            relay = _firsts(Where(bare.port), "/relay", sizes.firsts)
        # Once more, because the machine's speed changes by the minute.
        ours_s = min(_median(ours), _median(_firsts(where, "/chat/home/bench", sizes.firsts)))
    echo_s, relay_s = _median(echo), _median(relay)
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
    bar = Bar("server: time to the first delta over a bare echo", ours_s / echo_s, at_most=FIRST_RATIO)
    return Section(tables=(Table(title="The first delta", columns=columns, rows=rows, notes=notes),), bars=(bar,))


def _idle(folder: Path, sizes: _Sizes) -> Section:
    """Connections that wait, and what they and the conversations behind them take."""
    with (
        fresh_folder(folder) as data,
        served(data, [_ANSWER]) as url,
        serving(data / "data", _root(url)) as (
            server,
            where,
        ),
    ):
        _taken(Take(where=where, clients=1, turns_each=1))
        bare_bytes = server.memory_bytes()
        taken = _taken(Take(where=where, clients=min(100, sizes.idle), turns_each=1))
        open_bytes = server.memory_bytes()
        stayed, beside_bytes = _stayed(server, where, sizes, taken.conversations)
    conversations = len(taken.conversations)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("conversations after a turn", conversations, None, (open_bytes - bare_bytes) / conversations / 1024),
        ("connections that hear them", sizes.idle, stayed.alive, (beside_bytes - open_bytes) / sizes.idle / 1024),
    )
    columns = ("idle", "number", "alive at the end", "KB each")
    notes = ("alive: still connected, and told so by a heartbeat, which comes every 15 s",)
    wanted = min(CONNECTIONS, sizes.idle)
    bar = Bar("server: idle connections held", stayed.alive, at_least=wanted)
    return Section(tables=(Table(title="What waits", columns=columns, rows=rows, notes=notes),), bars=(bar,))


def _stayed(server: Process, where: Where, sizes: _Sizes, names: Sequence[str]) -> tuple[Stayed, int]:
    stay_s = BEATS_S if sizes is not _TINY else 0.0
    plan = Idle(where=where, streams=sizes.idle, conversations=tuple(names), stay_s=stay_s)
    with gathered(plan) as crowd:
        _expect(crowd.hear(), Ready)
        memory_bytes = server.memory_bytes()
        return _expect(crowd.hear(), Stayed), memory_bytes


_ANSWER: Final[dict[str, object]] = {
    "reply": f'<channel:{DECISION}>{{"action": "complete", "final_answer": "{TEXT}"}}</channel:{DECISION}>',
    "repeat": True,
}


def _root(url: str) -> str:
    return url.removesuffix("/v1")


def _taken(plan: Take) -> Taken:
    with gathered(plan) as crowd:
        return _expect(crowd.hear(), Taken)


def _firsts(where: Where, path: str, times: int) -> Firsts:
    with gathered(First(where=where, path=path, times=times, text=TEXT)) as crowd:
        return _expect(crowd.hear(), Firsts)


def _median(firsts: Firsts) -> float:
    return statistics.median(firsts.each_s)


def _expect(report: Report, kind: type[R]) -> R:
    assert isinstance(report, kind), report
    return report
