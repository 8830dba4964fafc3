"""Ceilings: the most that could have been read from the cache on the times of a trace, whatever a prompt is made of."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from bench.context.asks import Ask, recorded_lengths
from bench.context.provider_cache import FIVE_MINUTES_S, Bill
from bench.context.sent import Sent


def recorded_ceiling(asks: Sequence[Ask], own_tokens: int) -> Bill | None:
    """The best that any append-only prompt with the recorded lengths could do; None where no length was recorded.

    The first request reads what it read then, which an earlier session had left.
    """
    lengths = recorded_lengths(asks)
    if not lengths:
        return None
    best = _best(
        [_Step(ask.at_s, length, bool(ask.summary)) for ask, length in zip(asks, lengths, strict=True)], own_tokens
    )
    left = asks[0].tokens.cache_read
    return best + Bill(read=left, written=-left)


def length_ceiling(sent: Sequence[Sent]) -> Bill:
    """The best that any append-only prompt could do whose requests are as long as these and forget where these do."""
    made = [one for one in sent if not one.aside]
    forgot = [False, *(not _extends(before, one) for before, one in pairwise(made))]
    steps = [_Step(one.at_s, one.tokens, forgets) for one, forgets in zip(made, forgot, strict=True)]
    return _best(steps, made[0].pieces[0].tokens) + Bill(plain=sum(one.tokens for one in sent if one.aside))


class _Step(msgspec.Struct, frozen=True):
    at_s: float
    tokens: int
    forgets: bool


def _best(steps: Sequence[_Step], own_tokens: int) -> Bill:
    """All that the request before had is read if it was sent no more than five minutes ago.

    Where something was forgotten in between, what an agent always begins with: its system text and its tools.
    """
    read = 0
    for before, step in pairwise(steps):
        if step.at_s - before.at_s <= FIVE_MINUTES_S:
            read += own_tokens if step.forgets else min(before.tokens, step.tokens)
    return Bill(read=read, written=sum(step.tokens for step in steps) - read)


def _extends(before: Sent, after: Sent) -> bool:
    """Whether the second request begins with all of the first but its last block, which is never cached."""
    kept = len(before.pieces) - 1
    return [one.sha256 for one in before.pieces[:kept]] == [one.sha256 for one in after.pieces[:kept]]


def recorded_bill(asks: Sequence[Ask]) -> Bill:
    """What the provider billed when the session was recorded."""
    bills = [Bill(ask.tokens.cache_read, ask.tokens.cache_write, 0, ask.tokens.input) for ask in asks]
    return sum(bills, Bill())
