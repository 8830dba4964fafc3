"""Measures the context cost of recorded sessions on timeloom and other runtimes, by one counter and price."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from bench.context.agent import RecordedAgent, to_agent
from bench.context.asks import TraceRequest, to_asks
from bench.context.ceiling import length_ceiling, recorded_bill, recorded_ceiling
from bench.context.counting import TokenCounter, calibrate_counter
from bench.context.generated import MAX_OF_FIXED, MAX_OF_HAND
from bench.context.peer_histories import SIDES, peer_requests, with_points_by_hand
from bench.context.plain_client import client_requests
from bench.context.player import APPEND_ONLY, FULL, OWN_SUMMARY, PLAY_MODES, PlayResult, play
from bench.context.provider_cache import CAREFUL, OPUS, Bill
from bench.context.sent import FIXED, SentRequest, bill_requests, sum_bills, with_lifetimes
from bench.context.tokenizer import CountTokens, open_tokenizer
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.settings import BenchRun
from bench.traces import Trace

TRIM_TOKENS: Final = 167_000
"""The prompt size at which the recorded agent compacted."""

_CLIENT: Final = "a client with a list of messages"
_TRIMMED: Final = "LangGraph, trim_messages instead"


class TraceResult(msgspec.Struct, frozen=True):
    """The results for one trace: our plays by name, and the requests of other runtimes by their names."""

    name: str
    asks: Sequence[TraceRequest]
    counter: TokenCounter
    plays: Mapping[str, PlayResult]
    peers: Mapping[str, Sequence[SentRequest]]

    @property
    def best_fixed_usd(self) -> float:
        """The lowest cost with a fixed lifetime for all requests and without pruning, without repeated reads."""
        return min(sum_bills(bills).usd(OPUS) for bills in self.fixed().values())

    def fixed(self) -> dict[str, list[Bill]]:
        """Return the bills of the play without pruning, for each fixed lifetime."""
        sent = self.plays[APPEND_ONLY].sent
        return {name: bill_requests(with_lifetimes(sent, lifetimes)) for name, lifetimes in FIXED.items()}


def measure_context(run: BenchRun) -> BenchSection:
    """Measure the sessions of this run on timeloom, and on other runtimes if their environment exists."""
    count = open_tokenizer(run.peer)
    measured = [_measure_trace(trace, run.peer, count) for trace in run.sessions]
    tables = (_shares(measured), _costs(measured), _forecasts(measured))
    return BenchSection(tables=tables, bars=tuple(bar for one in measured for bar in _bars(one)))


def _measure_trace(trace: Trace, python: Path | None, count: CountTokens) -> TraceResult:
    asks = to_asks(trace)
    counter = calibrate_counter(asks, count)
    agent = to_agent(asks, counter)
    plays = {name: asyncio.run(play(asks, agent, counter, way)) for name, way in PLAY_MODES.items()}
    peers = {_CLIENT: client_requests(asks, agent, counter)}
    if python:
        peers |= _play_peers(python, asks, agent, counter)
    return TraceResult(trace.name, asks, counter, plays, peers)


def _play_peers(
    python: Path, asks: Sequence[TraceRequest], agent: RecordedAgent, counter: TokenCounter
) -> dict[str, list[SentRequest]]:
    with ThreadPoolExecutor(max_workers=2) as pool:
        jobs = {name: pool.submit(peer_requests, python, side, asks, agent, counter) for side, name in SIDES.items()}
        jobs[_TRIMMED] = pool.submit(peer_requests, python, "langgraph", asks, agent, counter, trim_tokens=TRIM_TOKENS)
        return {name: job.result() for name, job in jobs.items()}


def _shares(measured: Sequence[TraceResult]) -> BenchTable:
    rows: list[tuple[Cell, ...]] = []
    for one in measured:
        ceiling = recorded_ceiling(one.asks, one.counter.own_tokens)
        if ceiling:
            rows.append(_share_row(one.name, "the best of any append-only prompt", ceiling))
            rows.append(_share_row(one.name, "recorded then", recorded_bill(one.asks)))
        for name, played in one.plays.items():
            rows.append(_share_row(one.name, f"timeloom, {name}", sum_bills(bill_requests(played.sent))))
            at_5m = sum_bills(bill_requests(with_lifetimes(played.sent, FIXED[_ALL_5M])))
            rows.append(_share_row(one.name, f"timeloom, {name}, all 5 minutes", at_5m))
            rows.append(_share_row(one.name, "the best of as long requests", length_ceiling(played.sent)))
    columns = ("session", "prompt", "input k tokens", "read %", "written k", "written for an hour k", "plain k")
    notes = (
        "the best: all that the request before had, if it was sent less than 5 minutes ago, by the recorded lengths",
        "input: of all requests together, by one counter, which is calibrated to the recorded bill",
        "a prune sends less, so that a smaller share of it is read; what it costs stands in the next table",
    )
    return BenchTable(title="Input read from the cache", columns=columns, rows=tuple(rows), notes=notes)


_ALL_5M: Final = next(iter(FIXED))


def _share_row(session: str, name: str, bill: Bill) -> tuple[Cell, ...]:
    return (
        session,
        name,
        round(bill.tokens / 1000),
        f"{bill.share_read:.2f}",
        round(bill.written / 1000),
        round(bill.written_for_an_hour / 1000),
        round(bill.plain / 1000),
    )


def _costs(measured: Sequence[TraceResult]) -> BenchTable:
    rows: list[tuple[Cell, ...]] = []
    for one in measured:
        for name, played in one.plays.items():
            rows.append(_cost_row(one.name, f"timeloom, {name}", played.sent, played))
        plain = one.plays[APPEND_ONLY]
        for name, lifetimes in FIXED.items():
            rows.append(_cost_row(one.name, f"append-only, {name}", with_lifetimes(plain.sent, lifetimes), plain))
        for name, sent in one.peers.items():
            rows.append(_cost_row(one.name, f"{name}, as shipped", sent))
            rows.append(_cost_row(one.name, f"{name}, cache points by hand", with_points_by_hand(sent)))
    columns = (
        "session",
        "side",
        "requests",
        "largest k tokens",
        "input k tokens",
        "read %",
        "input $",
        "careful reading $",
        "prunes",
        "reads again",
        "with them $",
    )
    notes = (
        "prices of Claude Opus 4.6: $5 for a million tokens, read 0.1, written 1.25, for an hour 2",
        "careful reading: an hour's entry that continues one of five minutes lives no longer than that",
        "as shipped: no cache points, as none of them sets any unless told; by hand: system text, end, end before",
        "what was summed up in the recording is summed up everywhere at the same place, unless it says otherwise",
        "reads again: edits of files whose content was out of sight by then; each is charged a request and its result",
        *(() if any(len(one.peers) > 1 for one in measured) else ("other runtimes are left out of this run",)),
    )
    return BenchTable(title="What the input costs", columns=columns, rows=tuple(rows), notes=notes)


def _cost_row(
    session: str, name: str, sent: Sequence[SentRequest], played: PlayResult | None = None
) -> tuple[Cell, ...]:
    bill = sum_bills(bill_requests(sent))
    return (
        session,
        name,
        len(sent),
        round(max(sum(piece.tokens for piece in one.pieces) for one in sent) / 1000),
        round(bill.tokens / 1000),
        f"{bill.share_read:.2f}",
        _usd(bill.usd(OPUS)),
        _usd(sum_bills(bill_requests(sent, CAREFUL)).usd(OPUS)),
        played.prunes if played else None,
        len(played.reads_again) if played else None,
        _usd(bill.usd(OPUS) + sum_bills(played.reads_again).usd(OPUS)) if played else None,
    )


def _usd(usd: float) -> str:
    return f"{usd:.2f}"


def _forecasts(measured: Sequence[TraceResult]) -> BenchTable:
    rows: list[tuple[Cell, ...]] = []
    for one in measured:
        for name, played in one.plays.items():
            found = played.forecasts
            rows.append(
                (
                    one.name,
                    name,
                    found.calls,
                    f"{found.tokens_off:.3f}",
                    f"{found.worst_call_off:.3f}",
                    f"{found.usd_off:.3f}",
                    found.losses,
                    found.explained,
                    found.same_bytes,
                )
            )
    columns = (
        "session",
        "play",
        "calls",
        "tokens off %",
        "worst call off %",
        "dollars off %",
        "losses",
        "explained",
        "replayed byte for byte",
    )
    notes = (
        "off: billed by the simulated provider otherwise than the log forecast",
        "losses: calls that read less than the call before had left; explained: by the replayed log",
    )
    return BenchTable(title="Forecasts of the cache", columns=columns, rows=tuple(rows), notes=notes)


def _bars(one: TraceResult) -> list[BenchTarget]:
    bars = [*_share_bars(one), *_cost_bars(one)]
    for name, played in one.plays.items():
        found = played.forecasts
        off = max(found.tokens_off, found.usd_off)
        explained = 100 * found.explained / found.losses if found.losses else 100.0
        bars.append(BenchTarget(f"{one.name}: forecast off by percent, {name}", off, at_most=1))
        bars.append(BenchTarget(f"{one.name}: losses explained, percent, {name}", explained, at_least=100))
    return bars


def _share_bars(one: TraceResult) -> list[BenchTarget]:
    """Compare append-only prompts with their upper bounds, at five minutes, with the recorded summary and with ours."""
    ceilings = {
        APPEND_ONLY: recorded_ceiling(one.asks, one.counter.own_tokens),
        OWN_SUMMARY: length_ceiling(one.plays[OWN_SUMMARY].sent),
    }
    return [
        BenchTarget(
            f"{one.name}: points of the share read below the best, {name}",
            ceiling.share_read
            - sum_bills(bill_requests(with_lifetimes(one.plays[name].sent, FIXED[_ALL_5M]))).share_read,
            at_most=0.5,
        )
        for name, ceiling in ceilings.items()
        if ceiling
    ]


def _cost_bars(one: TraceResult) -> list[BenchTarget]:
    """Compare our cost by the less favourable reading of the rules, including repeated reads of files."""
    played = one.plays[FULL]
    again = sum_bills(played.reads_again).usd(OPUS)
    usd = max(sum_bills(bill_requests(played.sent, rules)).usd(OPUS) for rules in (OPUS, CAREFUL)) + again
    best, fixed_again = one.best_fixed_usd, sum_bills(one.plays[APPEND_ONLY].reads_again).usd(OPUS)
    fixed = f"{one.name}: cost over the best fixed append-only policy"
    bars = [
        BenchTarget(fixed, usd / (best + fixed_again), at_most=MAX_OF_FIXED),
        BenchTarget(f"{fixed}, reads again charged to timeloom alone", usd / best, at_most=MAX_OF_FIXED),
    ]
    shipped = min(sum_bills(bill_requests(sent)).usd(OPUS) for sent in one.peers.values())
    by_hand = min(sum_bills(bill_requests(with_points_by_hand(sent))).usd(OPUS) for sent in one.peers.values())
    bars.append(BenchTarget(f"{one.name}: cost over the cheapest peer as shipped", usd / shipped, at_most=0.5))
    bars.append(BenchTarget(f"{one.name}: cost over the cheapest peer by hand", usd / by_hand, at_most=MAX_OF_HAND))
    return bars
