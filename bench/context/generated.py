"""Measures generated sessions: their bill against fixed append-only policies and a client with cache points by hand."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from bench.context.agent import to_agent
from bench.context.asks import to_asks
from bench.context.counting import calibrate_counter
from bench.context.families import OTHERS, SEEDS, SessionFamily, family_of, generate_session
from bench.context.peer_histories import with_points_by_hand
from bench.context.plain_client import client_requests
from bench.context.player import APPEND_ONLY, FULL, PLAY_MODES, play
from bench.context.provider_cache import CAREFUL, OPUS
from bench.context.sent import FIXED, bill_requests, sum_bills, with_lifetimes
from bench.context.tokenizer import CountTokens, open_tokenizer
from bench.report import BenchSection, BenchTable, BenchTarget, Cell
from bench.settings import BenchRun
from bench.traces import Trace

MAX_OF_FIXED: Final = 0.95
MAX_OF_HAND: Final = 0.85


class SessionBill(msgspec.Struct, frozen=True, kw_only=True):
    """The bill of one session and those it is compared with, in dollars."""

    family: str
    seed: int
    requests: int
    usd: float
    """By the less favourable reading of the rules, without repeated reads of files."""
    again_usd: float
    """The repeated reads of files that are not visible: pruned, or only shown as a preview or cut."""
    fixed: dict[str, float]
    fixed_again_usd: float
    """The same for the fixed policies, which show the same previews."""
    by_hand: float
    """A client shows everything, so it reads nothing again."""
    prunes: int
    reads_again: int
    hour_tokens: int

    @property
    def of_fixed(self) -> float:
        """The bill over that of the best fixed append-only policy, both with their repeated reads."""
        return (self.usd + self.again_usd) / (min(self.fixed.values()) + self.fixed_again_usd)

    @property
    def of_fixed_strict(self) -> float:
        """The same if repeated reads are charged to timeloom alone."""
        return (self.usd + self.again_usd) / min(self.fixed.values())

    @property
    def of_hand(self) -> float:
        """The bill over that of a client with cache points by hand."""
        return (self.usd + self.again_usd) / self.by_hand

    @property
    def fixed_of_hand(self) -> float:
        """The bill of the best fixed append-only policy over that of the client: what timeloom's own text costs."""
        return min(self.fixed.values()) / self.by_hand


class _SessionJob(msgspec.Struct, frozen=True):
    family: SessionFamily
    seed: int
    python: Path | None


def measure_generated(run: BenchRun) -> BenchSection:
    """Measure sessions of many small calls, each seed against the bars, and the worst of other families."""
    small = [_SessionJob(family_of(seed), seed, run.peer) for seed in SEEDS[: run.sizes.family_seeds]]
    others = [
        _SessionJob(family, seed, run.peer) for family in OTHERS for seed in SEEDS[: run.sizes.other_family_seeds]
    ]
    # Two processes, because a play uses one core and its neighbours may be at work as well.
    with ProcessPoolExecutor(max_workers=2) as pool:
        bills = list(pool.map(_measure_job, [*small, *others]))
    hard, rest = bills[: len(small)], bills[len(small) :]
    sessions = (_sessions_table(hard, run.peer),) if hard else ()
    return BenchSection(tables=(*sessions, _families_table(hard, rest)), bars=_bars(hard))


def bill_session(trace: Trace, family: str, seed: int, count: CountTokens) -> SessionBill:
    """Play the session through the runtime and return its bill and those of the others."""
    asks = to_asks(trace)
    counter = calibrate_counter(asks, count)
    agent = to_agent(asks, counter)
    plays = {name: asyncio.run(play(asks, agent, counter, PLAY_MODES[name])) for name in (APPEND_ONLY, FULL)}
    plain, full = plays[APPEND_ONLY], plays[FULL]
    by_hand = with_points_by_hand(client_requests(asks, agent, counter))
    return SessionBill(
        family=family,
        seed=seed,
        requests=len(asks),
        usd=max(sum_bills(bill_requests(full.sent, rules)).usd(OPUS) for rules in (OPUS, CAREFUL)),
        again_usd=sum_bills(full.reads_again).usd(OPUS),
        fixed={
            name: sum_bills(bill_requests(with_lifetimes(plain.sent, lifetimes))).usd(OPUS)
            for name, lifetimes in FIXED.items()
        },
        fixed_again_usd=sum_bills(plain.reads_again).usd(OPUS),
        by_hand=sum_bills(bill_requests(by_hand)).usd(OPUS),
        prunes=full.prunes,
        reads_again=len(full.reads_again),
        hour_tokens=sum_bills(bill_requests(full.sent)).written_for_an_hour,
    )


def _measure_job(job: _SessionJob) -> SessionBill:
    trace = generate_session(job.family, job.seed)
    return bill_session(trace, job.family.name, job.seed, _tokenizer(job.python))


@cache
def _tokenizer(python: Path | None) -> CountTokens:
    return open_tokenizer(python)


def _sessions_table(bills: Sequence[SessionBill], python: Path | None) -> BenchTable:
    rows = tuple(
        (
            one.seed,
            one.family,
            one.requests,
            f"{one.usd + one.again_usd:.2f}",
            *(f"{usd + one.fixed_again_usd:.2f}" for usd in one.fixed.values()),
            f"{one.by_hand:.2f}",
            one.prunes,
            one.reads_again,
            round(one.hour_tokens / 1000),
            f"{one.of_fixed:.3f}",
            f"{one.of_hand:.3f}",
        )
        for one in bills
    )
    columns = (
        "seed",
        "family",
        "requests",
        "timeloom $",
        *(f"append-only, {name} $" for name in FIXED),
        "by hand $",
        "prunes",
        "reads again",
        "written for an hour k",
        "of the best fixed",
        "of by hand",
    )
    counted = "timeloom's estimate, as the environment is left out" if python is None else "another model's vocabulary"
    notes = (
        "150 to 400 calls of 50 to 600 tokens; odd seeds pause as recorded below 5 minutes, even ones have long gaps",
        f"tokens are counted by {counted}; every agent has instructions of 20,000 tokens, timeloom its own as well",
        "by hand: a client with a list of messages and points after the system text, at the end and the end before",
    )
    return BenchTable(title="Generated sessions of many small calls", columns=columns, rows=rows, notes=notes)


def _families_table(hard: Sequence[SessionBill], rest: Sequence[SessionBill]) -> BenchTable:
    names = dict.fromkeys(one.family for one in [*hard, *rest])
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        bills = [one for one in [*hard, *rest] if one.family == name]
        fixed, hand = max(bills, key=lambda one: one.of_fixed), max(bills, key=lambda one: one.of_hand)
        rows.append(
            (
                name,
                len(bills),
                f"{min(one.requests for one in bills)} to {max(one.requests for one in bills)}",
                f"{fixed.of_fixed:.3f}",
                fixed.seed,
                f"{max(one.of_fixed_strict for one in bills):.3f}",
                f"{hand.of_hand:.3f}",
                hand.seed,
                f"{max(one.fixed_of_hand for one in bills):.3f}",
            )
        )
    columns = (
        "family",
        "sessions",
        "requests",
        "worst of the best fixed",
        "seed",
        "reads charged to timeloom alone",
        "worst of by hand",
        "seed",
        "best fixed of by hand",
    )
    notes = (
        "fixed: timeloom's own prompt with its instructions, catalogue and previews, without pruning, one lifetime",
        "the best fixed policy is known only after the session; reads of files that were not visible are on both sides",
        "by hand: a client of its own, without timeloom's instructions and catalogue, which shows everything whole",
        "best fixed of by hand: the worst; above 1, timeloom's own text costs more than its previews save",
    )
    return BenchTable(title="The worst of each family", columns=columns, rows=tuple(rows), notes=notes)


def _bars(bills: Sequence[SessionBill]) -> tuple[BenchTarget, ...]:
    if not bills:
        return ()
    fixed = "generated sessions: worst cost over the best fixed append-only policy"
    return (
        BenchTarget(fixed, max(one.of_fixed for one in bills), at_most=MAX_OF_FIXED),
        BenchTarget(
            f"{fixed}, reads again charged to timeloom alone",
            max(one.of_fixed_strict for one in bills),
            at_most=MAX_OF_FIXED,
        ),
        BenchTarget(
            "generated sessions: worst cost over a client by hand",
            max(one.of_hand for one in bills),
            at_most=MAX_OF_HAND,
        ),
    )
