"""Compares the runtime's cache forecasts, which its log records, with the simulated provider's bills."""

from collections.abc import Sequence
from typing import Final

import msgspec

from bench.context.provider_cache import OPUS, Bill
from timeloom.core.ids import ConversationId
from timeloom.ports.store import Store, StoreProblem
from timeloom.runtime.replay.cache_ledger import CacheRow
from timeloom.runtime.replay.replay import ReplayedCall, replay

_NO_EXPLANATION: Final = frozenset({"estimate", "evicted", "more_kept", "not_reported", "no_outcome"})
"""Reasons that state a wrong forecast, but not a change of the prompt."""


class ForecastErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of the forecasts in percent of the bill, and the number of explained losses."""

    calls: int
    tokens_off: float
    """Tokens billed differently from the forecast, call by call, over all tokens."""
    usd_off: float
    worst_call_off: float
    """The same for the worst call, without the first, whose tokens were never counted before."""
    losses: int
    """Calls that read less than the previous call had left in the cache."""
    explained: int
    same_bytes: int
    """Calls whose request the log reproduces byte for byte."""


async def compare_forecasts(store: Store, conversation: ConversationId, bills: Sequence[Bill]) -> ForecastErrors:
    """Compare the forecast of each decision in the replayed log with its bill."""
    calls: list[ReplayedCall] = []
    async for found in replay(store, conversation):
        if isinstance(found, StoreProblem):
            raise ValueError(f"the log does not replay: {found}")
        if found.purpose == "decision":
            calls.append(found)
    rows = [(call.cache, bill) for call, bill in zip(calls, bills, strict=False) if call.cache]
    forecast = [_forecast(row) for row, _ in rows]
    off = [_tokens_off(one, bill) for one, (_, bill) in zip(forecast, rows, strict=True)]
    billed = sum((bill for _, bill in rows), Bill())
    usd = billed.usd(OPUS)
    worst = [100 * one / max(1, bill.tokens) for one, (_, bill) in zip(off[1:], rows[1:], strict=True)]
    lost = _losses(bills)
    return ForecastErrors(
        calls=len(rows),
        tokens_off=100 * sum(off) / max(1, billed.tokens),
        usd_off=100 * abs(sum(forecast, Bill()).usd(OPUS) - usd) / (usd or 1),
        worst_call_off=max(worst, default=0.0),
        losses=len(lost),
        explained=sum(_is_explained(calls[n]) for n in lost if n < len(calls)),
        same_bytes=sum(call.verdict == "same" for call in calls),
    )


def _forecast(row: CacheRow) -> Bill:
    expected = row.expected
    return Bill(expected.read_tokens, expected.written_5m_tokens, expected.written_1h_tokens, expected.uncached_tokens)


def _tokens_off(forecast: Bill, bill: Bill) -> float:
    """Return the tokens billed differently: half of all differences, because each counts in two categories."""
    differences = (
        forecast.read - bill.read,
        forecast.written - bill.written,
        forecast.written_for_an_hour - bill.written_for_an_hour,
        forecast.plain - bill.plain,
    )
    return sum(map(abs, differences)) / 2


def _losses(bills: Sequence[Bill]) -> list[int]:
    lost: list[int] = []
    for n in range(1, len(bills)):
        before = bills[n - 1]
        if bills[n].read < before.tokens - before.plain:
            lost.append(n)
    return lost


def _is_explained(call: ReplayedCall) -> bool:
    change = call.cache.change if call.cache else None
    return change is not None and change.reason not in _NO_EXPLANATION
