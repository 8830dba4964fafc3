"""Compares one loop on timeloom, LangGraph, OpenAI Agents SDK and Pydantic AI against `timeloom model serve`.

Measured: the time between two calls of the same trivial tool, with the same scripted replies, from the first round of a
conversation to the last of its tenth turn. Each side and the endpoint are separate processes. The time of a bare HTTP
client for the same requests is measured too and subtracted in the columns "added".

Not measured: importing and opening (a turn of another conversation runs first), several users at once, and the time of
a real model, beside which all of this is small.

The other runtimes run in their quickest configuration that still stores their data: no tracing, no retries, whole
replies instead of streams, LangGraph by `invoke` and with both durability settings that store every step, Pydantic AI
also without storage. timeloom always streams.
"""

import statistics
import sys
from typing import Final, Literal

import msgspec

from bench import peer
from bench.endpoints import record_requests, serve_script
from bench.loop_side import LoopJob, LoopResult, SentHttpRequest, SideName
from bench.loops import TOOL_TEXT, answer_text, call_text
from bench.measures import StepTimes, disk_bytes, fresh_folder
from bench.report import BenchSection, BenchTable, Cell
from bench.settings import BenchRun, BenchSizes


class _PeerSide(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the comparison."""

    title: str
    name: SideName
    stored: bool = True
    durability: Literal["sync", "async"] = "sync"
    ours: bool = False


_OURS: Final = _PeerSide(title="timeloom, `openai:`", name="openai", ours=True)
_LANGGRAPH: Final = _PeerSide(title="LangGraph, SqliteSaver, each step stored before the next", name="langgraph")
_SIDES: Final = (
    _OURS,
    _PeerSide(title="timeloom, `anthropic:`", name="anthropic", ours=True),
    _LANGGRAPH,
    _PeerSide(title="LangGraph, SqliteSaver, its default durability", name="langgraph", durability="async"),
    _PeerSide(title="OpenAI Agents SDK, SQLiteSession", name="agents"),
    _PeerSide(title="Pydantic AI, stores nothing", name="pydantic", stored=False),
    _PeerSide(title="Pydantic AI, messages put in SQLite", name="pydantic"),
)
_CLIENT: Final = _PeerSide(title="no runtime: OpenAI's client, LangGraph's requests", name="client", stored=False)

_NOTES: Final = (
    "a round: from one call of the tool to the next; the first begins and the last ends with its turn",
    "added: without what a bare client takes to send the same requests and read the replies, measured in turns with it",
    "means over the rounds of a turn, of each round the quickest run; a turn of another conversation goes before",
    "times: so many times what the first row takes",
    "timeloom streams its replies and sends one long text; the others ask for whole replies and send many messages",
    "OpenAI's client goes through all messages in every round; the other three use it, and it is most of their time",
    "databases are in WAL mode with synchronous=FULL",
    "OpenAI Agents SDK stores what a round said when it is over; timeloom and LangGraph also what is about to be done",
)
_SIZE_NOTES: Final = (
    "CPU: of the side's process in all its threads, without waiting for the endpoint; of each turn the quickest run",
    "disk is after closing, in whole blocks of the file system",
    "memory: the process at its peak, and after its imports alone",
)


class _SideMeasurement:
    """The measurements of one side and of the bare client."""

    def __init__(self, requests: list[SentHttpRequest]) -> None:
        self.requests = requests
        self.own = StepTimes()
        self.bare = StepTimes()
        self.cpu = StepTimes()
        self.disk_bytes = 0
        self.imported_bytes = 0
        self.peak_bytes = 0

    def add(self, looped: LoopResult, bare: LoopResult) -> None:
        self.own.add([seconds for turn in looped.round_s for seconds in turn])
        self.bare.add([seconds for turn in bare.round_s for seconds in turn])
        self.cpu.add(looped.cpu_s)
        self.imported_bytes = looped.imported_bytes
        self.peak_bytes = max(self.peak_bytes, looped.peak_bytes)

    def own_ms(self, rounds: int) -> tuple[float, float]:
        """Return the duration of a round in the first and in the last turn."""
        return _mean_ms(self.own, slice(None, rounds)), _mean_ms(self.own, slice(-rounds, None))

    def added_ms(self, rounds: int) -> tuple[float, float]:
        """Return the same without the bare client."""
        first, last = self.own_ms(rounds)
        return (
            first - _mean_ms(self.bare, slice(None, rounds)),
            last - _mean_ms(self.bare, slice(-rounds, None)),
        )

    def cpu_ms(self, rounds: int) -> tuple[float, float]:
        """Return the CPU time of a round in the first and in the last turn."""
        return self.cpu.quickest_s[0] / rounds * 1000, self.cpu.quickest_s[-1] / rounds * 1000


def measure_peers(run: BenchRun) -> BenchSection:
    """Measure all sides alternately, after one recorded run each, which also warms them up."""
    sizes = run.sizes
    steps = _script(sizes.loop_turns, sizes.loop_rounds)
    with fresh_folder(run.work) as folder, serve_script(folder, steps) as url:
        found, missing = _record_sides(run, url)
        if _LANGGRAPH in found:
            found[_CLIENT] = _SideMeasurement(found[_LANGGRAPH].requests)
        for _ in range(sizes.loop_runs):
            for side, measured in found.items():
                bare = _bare(run, url, measured.requests)
                measured.add(_run(run, side, url, measured), bare)
    return BenchSection(tables=(_times(found, sizes, missing), _sizes(found, sizes)))


def _times(found: dict[_PeerSide, _SideMeasurement], sizes: BenchSizes, missing: list[str]) -> BenchTable:
    early, late = _spans(sizes)
    columns = (
        "side",
        f"{early} ms",
        f"{late} ms",
        f"{early} times",
        f"{late} times",
        f"{early} added ms",
        f"{late} added ms",
        f"{early} added times",
        f"{late} added times",
        "added, late over early",
    )
    return BenchTable(
        title=f"The same loop on other runtimes, {sizes.loop_turns} turns of {sizes.loop_rounds} rounds",
        columns=columns,
        rows=tuple(_time_row(side, one, found[_OURS], sizes.loop_rounds) for side, one in found.items()),
        notes=(*_NOTES, *missing),
    )


def _sizes(found: dict[_PeerSide, _SideMeasurement], sizes: BenchSizes) -> BenchTable:
    early, late = _spans(sizes)
    columns = (
        "side",
        f"{early} CPU ms",
        f"{late} CPU ms",
        f"{early} times",
        f"{late} times",
        "last request KB",
        "disk KB",
        "peak memory MB",
        "imports alone MB",
    )
    return BenchTable(
        title="What the same loop takes besides time",
        columns=columns,
        rows=tuple(_size_row(side, one, found[_OURS], sizes.loop_rounds) for side, one in found.items()),
        notes=_SIZE_NOTES,
    )


def _spans(sizes: BenchSizes) -> tuple[str, str]:
    """Return the labels of the first and of the last turn's rounds."""
    rounds, count = sizes.loop_rounds, sizes.loop_rounds * sizes.loop_turns
    return f"rounds 1–{rounds}", f"rounds {count - rounds + 1}–{count}"


def _script(turns: int, rounds: int) -> list[dict[str, object]]:
    call: dict[str, object] = {"reply": call_text(), "repeat": rounds - 1}
    answer: dict[str, object] = {"reply": answer_text()}
    return [call, answer] * turns


def _record_sides(run: BenchRun, url: str) -> tuple[dict[_PeerSide, _SideMeasurement], list[str]]:
    """Record the requests of each side; return them and notes about omitted sides."""
    found: dict[_PeerSide, _SideMeasurement] = {}
    missing: list[str] = []
    for side in _SIDES:
        if not side.ours and run.peer is None:
            missing.append(f"left out of this run: {side.title}")
            continue
        try:
            found[side] = _record_side(run, side, url)
        except peer.PeerError as error:
            if side.ours:
                raise
            missing.append(f"left out, because it failed: {side.title} ({error})")
    return found, missing


def _record_side(run: BenchRun, side: _PeerSide, url: str) -> _SideMeasurement:
    requests: list[SentHttpRequest] = []
    with record_requests(url, requests) as through:
        _run(run, side, through, _SideMeasurement([]))
    return _SideMeasurement(requests)


def _run(run: BenchRun, side: _PeerSide, url: str, measured: _SideMeasurement) -> LoopResult:
    with fresh_folder(run.work) as folder:
        job = LoopJob(
            side=side.name,
            url=url,
            folder=str(folder.resolve()),
            turns=run.sizes.loop_turns,
            rounds=run.sizes.loop_rounds,
            seen=TOOL_TEXT,
            stored=side.stored,
            durability=side.durability,
            requests=tuple(measured.requests) if side is _CLIENT else (),
        )
        python = None if side.ours else run.peer
        looped = _run_here(job) if python is None else peer.run_loop(python, job)
        measured.disk_bytes = disk_bytes(folder)
    return looped


def _bare(run: BenchRun, url: str, requests: list[SentHttpRequest]) -> LoopResult:
    sizes = run.sizes
    job = LoopJob(
        side="bare", url=url, folder="", turns=sizes.loop_turns, rounds=sizes.loop_rounds, requests=tuple(requests)
    )
    return _run_here(job)


def _run_here(job: LoopJob) -> LoopResult:
    command = [sys.executable, "-m", "bench.loop_side"]
    return msgspec.json.decode(peer.run_program(command, msgspec.json.encode(job), cwd=peer.ROOT), type=LoopResult)


def _time_row(side: _PeerSide, measured: _SideMeasurement, ours: _SideMeasurement, rounds: int) -> tuple[Cell, ...]:
    own, added = measured.own_ms(rounds), measured.added_ms(rounds)
    return (
        side.title,
        *own,
        *(one / other for one, other in zip(own, ours.own_ms(rounds), strict=True)),
        *added,
        *(one / other for one, other in zip(added, ours.added_ms(rounds), strict=True)),
        added[1] / added[0],
    )


def _size_row(side: _PeerSide, measured: _SideMeasurement, ours: _SideMeasurement, rounds: int) -> tuple[Cell, ...]:
    cpu = measured.cpu_ms(rounds)
    return (
        side.title,
        *cpu,
        *(one / other for one, other in zip(cpu, ours.cpu_ms(rounds), strict=True)),
        len(measured.requests[-1].body.encode()) / 1000,
        measured.disk_bytes / 1000,
        measured.peak_bytes / 1e6,
        measured.imported_bytes / 1e6,
    )


def _mean_ms(steps: StepTimes, at: slice) -> float:
    return statistics.mean(steps.quickest_s[at]) * 1000
