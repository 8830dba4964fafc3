"""Lifetimes of cache points: five minutes or an hour, by what the pauses of the conversation make of the costs."""

from typing import Final

import msgspec

from timeloom.core.blocks.caching import CacheRates, LifetimeChoice
from timeloom.core.policy.cache.costs import Cached, Forecast, Shape, forecast, with_lifetimes
from timeloom.core.view.context.provider_caches import CachedView, Pauses

_CALLS: Final = (2, 1 / 8)
"""Decisions that a conversation is taken to have shown before it began: how many, and the share that ends a turn."""

_WITHIN: Final = (50, 0.004)
_BETWEEN: Final = (2, 0.3)
"""Pauses that a conversation is taken to have shown before it began, within a turn and between turns: how many, and
the share of them between five minutes and an hour. Each pause that it shows itself counts as one beside them."""


def pause_share(view: CachedView, *, last: bool) -> float:
    """How likely the next request comes after five minutes and within the hour; `last`: the turn ends with this one."""
    weight, share = _CALLS
    ends = 1.0 if last else (view.turns + weight * share) / (view.calls + weight)
    return ends * _share(view.between, *_BETWEEN) + (1 - ends) * _share(view.within, *_WITHIN)


def choose_lifetimes(
    shape: Shape, cached: Cached, rates: CacheRates, share: float, choice: LifetimeChoice = "auto"
) -> Forecast:
    """The forecast with the lifetimes that cost least.

    A longer one is dearer to write. It spares writing all anew if the next request comes after five minutes and within
    the hour, and `share` says how likely that is. After more than an hour, or within five minutes, both are the same.
    """
    count = len(shape.points)
    if cached.rules.kind == "automatic" or choice == "5m":
        return _with(shape, cached, 0)
    if choice == "1h":
        return _with(shape, cached, count)
    short = _with(shape, cached, 0)
    if short.hit and short.hit.lifetime == "5m" and rates.write_5m < rates.write_1h:
        # What is built on five minutes lasts no longer (`kept_after`): an hour would be paid for and not be had.
        return short
    made = [short, *(_with(shape, cached, long) for long in range(1, count + 1))]
    costs = [one.cost(rates) + share * _rewrite(one, shape, rates, cached.at) for one in made]
    return made[costs.index(min(costs))]


def _with(shape: Shape, cached: Cached, long: int) -> Forecast:
    return forecast(msgspec.structs.replace(shape, points=with_lifetimes(shape.points, long)), cached)


def _rewrite(made: Forecast, shape: Shape, rates: CacheRates, at: str) -> float:
    """What it costs more to send the same again, once all prefixes that last five minutes are gone."""
    lasting = [one.tokens for one in made.after if one.lifetime == "1h" and one.used_at == at]
    end = max((point.tokens for point in made.points if not point.small), default=0)
    lost = shape.scale.tokens(end) - shape.scale.tokens(max(lasting, default=0))
    return lost * (rates.write_5m - rates.read)


def _share(pauses: Pauses, weight: int, share: float) -> float:
    return (weight * share + pauses.over_5m - pauses.over_1h) / (weight + pauses.count)
