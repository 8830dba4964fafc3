"""Measures the framing of the prompt: the tokens that are neither recorded text nor parameters."""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from bench.context.agent import to_agent
from bench.context.asks import recorded_lengths, to_asks
from bench.context.ceiling import length_ceiling, recorded_ceiling
from bench.context.counting import calibrate_counter
from bench.context.families import SEEDS, family_of, generate_session
from bench.context.payload import shown_payload
from bench.context.plain_client import client_requests
from bench.context.player import PlayMode, ShownEntry, ShownTimeline, play_timeline
from bench.context.sent import FIXED, SentRequest, bill_requests, sum_bills, with_lifetimes
from bench.context.system_sizes import SystemSizes, measure_system_texts
from bench.context.tokenizer import CountTokens, open_tokenizer
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.settings import BenchRun
from bench.traces import Trace
from timeloom.core.blocks import ToolCall
from timeloom.core.codes import CodedError
from timeloom.core.render.editions import FIRST_EDITION, renderer_for

MAX_SHARE: Final = 0.10
MAX_CALL_TOKENS: Final = 55
"""The framing of a session may be a tenth of its payload or this many tokens for each call, whichever is larger."""

LAST_EDITION: Final = 3


class BlockFraming(msgspec.Struct, frozen=True):
    """The tokens of all blocks of one type."""

    count: int = 0
    payload: int = 0
    framing: int = 0

    def __add__(self, other: "BlockFraming") -> "BlockFraming":
        return BlockFraming(self.count + other.count, self.payload + other.payload, self.framing + other.framing)


class SessionFraming(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of one session in one edition; blocks by their type, titles as a type of their own."""

    edition: int
    group: str
    name: str
    calls: int
    blocks: dict[str, BlockFraming]
    input_tokens: int
    client_tokens: int
    below_ceiling: float
    """Points of the share read from the cache that the best append-only prompt has above ours."""

    @property
    def total(self) -> BlockFraming:
        """The tokens of all blocks."""
        return sum(self.blocks.values(), BlockFraming())

    @property
    def per_call(self) -> float:
        """Framing tokens for each call."""
        return self.total.framing / max(1, self.calls)

    @property
    def share(self) -> float:
        """Framing over payload."""
        return self.total.framing / max(1, self.total.payload)

    @property
    def of_limit(self) -> float:
        """Framing over its limit."""
        return self.total.framing / max(1.0, MAX_SHARE * self.total.payload, MAX_CALL_TOKENS * self.calls)

    @property
    def of_client(self) -> float:
        """The input tokens of all requests over those of the recorded client."""
        return self.input_tokens / max(1, self.client_tokens)


class _FramingJob(msgspec.Struct, frozen=True):
    edition: int
    group: str
    trace: Trace
    python: Path | None


def measure_framing(run: BenchRun) -> BenchSection:
    """Measure every recorded session and dialogue, and the generated family, in each edition."""
    generated = [generate_session(family_of(seed), seed) for seed in SEEDS[: run.sizes.framing_seeds]]
    groups = {
        "session": run.sessions,
        "generated": generated,
        "dialogue": run.dialogues[: run.sizes.framing_dialogues],
    }
    editions = known_editions()
    jobs = [
        _FramingJob(edition, group, trace, run.peer)
        for edition in editions
        for group, traces in groups.items()
        for trace in traces
    ]
    with ProcessPoolExecutor(max_workers=2) as pool:
        measured = list(pool.map(_measure_job, jobs))
    count = _tokenizer(run.peer)
    systems = [measure_system_texts(count, edition) for edition in editions]
    tables = (_sessions_table(measured, run.peer), _blocks_table(measured), _systems_table(systems))
    return BenchSection(tables=tables, bars=(*_bars(measured), *(bar for one in systems for bar in one.bars())))


def known_editions() -> list[int]:
    """Return the editions that this version renders."""
    found: list[int] = []
    for edition in range(FIRST_EDITION, LAST_EDITION + 1):
        with suppress(CodedError):
            renderer_for(edition)
            found.append(edition)
    return found


def frame_entry(shown: ShownEntry, count: CountTokens) -> BlockFraming:
    """Return the tokens of one entry: all that is shown, less each piece of payload as it was recorded."""
    payload = sum(count(piece) for piece in shown_payload(shown.entry.block, shown.text))
    return BlockFraming(1, payload, count(shown.text) - payload)


def frame_timeline(timeline: ShownTimeline, count: CountTokens) -> dict[str, BlockFraming]:
    """Return the tokens of the timeline by block type, and of the titles between the entries."""
    blocks: dict[str, BlockFraming] = {}
    for shown in timeline.entries:
        if shown.text:
            name = shown.entry.block.type_name
            blocks[name] = blocks.get(name, BlockFraming()) + frame_entry(shown, count)
    return blocks | {"(titles)": BlockFraming(1, 0, count(timeline.titles))}


def _measure_job(job: _FramingJob) -> SessionFraming:
    return asyncio.run(_measure_trace(job))


async def _measure_trace(job: _FramingJob) -> SessionFraming:
    count = _tokenizer(job.python)
    asks = to_asks(job.trace)
    counter = calibrate_counter(asks, count)
    agent = to_agent(asks, counter)
    timeline = await play_timeline(asks, agent, counter, PlayMode(forgets=False, edition=job.edition))
    sent = timeline.sent
    if any(ask.summary for ask in asks):
        sent = (await play_timeline(asks, agent, counter, PlayMode(edition=job.edition))).sent
    client = sum(recorded_lengths(asks)) or _tokens(client_requests(asks, agent, counter))
    ceiling = recorded_ceiling(asks, counter.own_tokens) or length_ceiling(sent)
    bill = sum_bills(bill_requests(with_lifetimes(sent, FIXED[next(iter(FIXED))])))
    return SessionFraming(
        edition=job.edition,
        group=job.group,
        name=job.trace.name,
        calls=sum(isinstance(one.entry.block, ToolCall) for one in timeline.entries),
        blocks=frame_timeline(timeline, count),
        input_tokens=_tokens(sent),
        client_tokens=client,
        below_ceiling=ceiling.share_read - bill.share_read,
    )


def _tokens(sent: Iterable[SentRequest]) -> int:
    return sum(one.tokens for one in sent)


@cache
def _tokenizer(python: Path | None) -> CountTokens:
    return open_tokenizer(python, "anthropic")


def _sessions_table(measured: Sequence[SessionFraming], python: Path | None) -> BenchTable:
    rows: list[tuple[Cell, ...]] = []
    for edition in dict.fromkeys(one.edition for one in measured):
        own = [one for one in measured if one.edition == edition]
        dialogues = [one for one in own if one.group == "dialogue"]
        rows += [_session_row(one) for one in own if one.group != "dialogue"]
        if dialogues:
            worst = max(dialogues, key=lambda one: one.of_limit)
            rows.append(_session_row(_join_sessions(dialogues), f"{len(dialogues)} dialogues together"))
            rows.append(_session_row(worst, f"the worst of them ({worst.name})"))
    columns = (
        "edition",
        "session",
        "calls",
        "payload k tokens",
        "framing k tokens",
        "framing a call",
        "of the payload %",
        "of the limit",
        "",
        "input of the client's",
        "below the ceiling, points",
    )
    counted = "timeloom's estimate, as the environment is left out" if python is None else "Anthropic's tokenizer"
    notes = (
        "framing: all tokens of the rendered timeline less each piece of recorded text and parameters that it shows",
        f"the limit: {MAX_SHARE:.0%} of the payload or {MAX_CALL_TOKENS} tokens a call, whichever is larger",
        f"tokens are counted by {counted}, entry by entry; names of tools count as framing, notices as well",
        "input: of all requests, with the recorded summaries; the client's as recorded, else those of a message list",
        "the ceiling: the share that the best append-only prompt reads from the cache, by the same lengths and times",
    )
    return BenchTable(title="Framing of the timeline", columns=columns, rows=tuple(rows), notes=notes)


def _join_sessions(sessions: Sequence[SessionFraming]) -> SessionFraming:
    """Return the sessions as if they were one, with the largest distance to the ceiling."""
    return SessionFraming(
        edition=sessions[0].edition,
        group=sessions[0].group,
        name=sessions[0].group,
        calls=sum(one.calls for one in sessions),
        blocks=_add_blocks(sessions),
        input_tokens=sum(one.input_tokens for one in sessions),
        client_tokens=sum(one.client_tokens for one in sessions),
        below_ceiling=max(one.below_ceiling for one in sessions),
    )


def _add_blocks(sessions: Sequence[SessionFraming]) -> dict[str, BlockFraming]:
    blocks: dict[str, BlockFraming] = {}
    for one in sessions:
        for name, framing in one.blocks.items():
            blocks[name] = blocks.get(name, BlockFraming()) + framing
    return blocks


def _session_row(one: SessionFraming, name: str = "") -> tuple[Cell, ...]:
    return (
        one.edition,
        name or one.name,
        one.calls,
        one.total.payload / 1000,
        one.total.framing / 1000,
        one.per_call,
        f"{100 * one.share:.1f}",
        f"{one.of_limit:.2f}",
        "met" if one.of_limit <= 1 else "MISSED",
        f"{one.of_client:.3f}",
        f"{one.below_ceiling:.2f}",
    )


def _blocks_table(measured: Sequence[SessionFraming]) -> BenchTable:
    rows: list[tuple[Cell, ...]] = []
    for edition in dict.fromkeys(one.edition for one in measured):
        for group in dict.fromkeys(one.group for one in measured):
            own = [one for one in measured if (one.edition, one.group) == (edition, group)]
            calls = sum(one.calls for one in own)
            blocks = _add_blocks(own)
            total = sum(blocks.values(), BlockFraming()).framing
            by_cost = sorted(blocks.items(), key=lambda item: -item[1].framing)
            rows += [
                (
                    edition,
                    f"{group}s" if group != "generated" else group,
                    name,
                    block.count,
                    block.payload / max(1, block.count),
                    block.framing / max(1, block.count),
                    block.framing / max(1, calls),
                    f"{100 * block.framing / max(1, total):.1f}",
                )
                for name, block in by_cost
            ]
    columns = (
        "edition",
        "sessions",
        "block",
        "blocks",
        "payload a block",
        "framing a block",
        "framing a call",
        "of all framing %",
    )
    return BenchTable(title="Framing by block type", columns=columns, rows=tuple(rows))


def _systems_table(systems: Sequence[SystemSizes]) -> BenchTable:
    rows = tuple(row for one in systems for row in one.rows())
    return BenchTable(title="Tokens of the system text", columns=("edition", "part", "tokens", "limit", ""), rows=rows)


def _bars(measured: Sequence[SessionFraming]) -> list[BenchTarget]:
    """Return the bars of each recorded session, of the worst generated one, and of all dialogues together."""
    bars: list[BenchTarget] = []
    for edition in dict.fromkeys(one.edition for one in measured):
        own = [one for one in measured if one.edition == edition]
        judged = {one.name: [one] for one in own if one.group == "session"}
        if generated := [one for one in own if one.group == "generated"]:
            judged["the worst generated session"] = generated
        if dialogues := [one for one in own if one.group == "dialogue"]:
            judged["all dialogues"] = [_join_sessions(dialogues)]
        for name, sessions in judged.items():
            title = f"edition {edition}, {name}"
            framing = max(one.of_limit for one in sessions)
            client = max(one.of_client for one in sessions)
            below = max(one.below_ceiling for one in sessions)
            bars.append(BenchTarget(f"{title}: framing over its limit", framing, at_most=1))
            bars.append(BenchTarget(f"{title}: input tokens over the client's", client, at_most=1))
            bars.append(BenchTarget(f"{title}: points below the append-only ceiling", below, at_most=0.5))
    return bars
