"""Computes upper bounds of cache reads for the times of a trace, independent of the prompt's form."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from bench.context.asks import TraceRequest, recorded_lengths
from bench.context.provider_cache import FIVE_MINUTES_S, Bill
from bench.context.sent import SentRequest


def recorded_ceiling(asks: Sequence[TraceRequest], own_tokens: int) -> Bill | None:
    """Return the best bill of an append-only prompt with the recorded lengths; None if no length was recorded.

    The first request reads the recorded amount, which an earlier session had left in the cache.
    """
    lengths = recorded_lengths(asks)
    if not lengths:
        return None
    best = _best_bill(
        [_RequestStep(ask.at_s, length, bool(ask.summary)) for ask, length in zip(asks, lengths, strict=True)],
        own_tokens,
    )
    left = asks[0].tokens.cache_read
    return best + Bill(read=left, written=-left)


def length_ceiling(sent: Sequence[SentRequest]) -> Bill:
    """Return the best bill of an append-only prompt with these request lengths and the same compactions."""
    made = [one for one in sent if not one.aside]
    forgot = [False, *(not _extends(before, one) for before, one in pairwise(made))]
    steps = [_RequestStep(one.at_s, one.tokens, forgets) for one, forgets in zip(made, forgot, strict=True)]
    return _best_bill(steps, made[0].pieces[0].tokens) + Bill(plain=sum(one.tokens for one in sent if one.aside))


class _RequestStep(msgspec.Struct, frozen=True):
    at_s: float
    tokens: int
    forgets: bool


def _best_bill(steps: Sequence[_RequestStep], own_tokens: int) -> Bill:
    """Return the bill if each request reads all of the previous one, sent at most five minutes ago.

    After a compaction only the constant beginning is read: the system text and the tools.
    """
    read = 0
    for before, step in pairwise(steps):
        if step.at_s - before.at_s <= FIVE_MINUTES_S:
            read += own_tokens if step.forgets else min(before.tokens, step.tokens)
    return Bill(read=read, written=sum(step.tokens for step in steps) - read)


def _extends(before: SentRequest, after: SentRequest) -> bool:
    """Return whether the second request begins with all of the first except its last block, which is never cached."""
    kept = len(before.pieces) - 1
    return [one.sha256 for one in before.pieces[:kept]] == [one.sha256 for one in after.pieces[:kept]]


def recorded_bill(asks: Sequence[TraceRequest]) -> Bill:
    """Return the provider's bill of the recorded session."""
    bills = [Bill(ask.tokens.cache_read, ask.tokens.cache_write, 0, ask.tokens.input) for ask in asks]
    return sum(bills, Bill())
