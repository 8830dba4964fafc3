"""Chooses cache lifetimes of five minutes or one hour from the pauses of a conversation."""

from typing import Final

import msgspec

from timeloom.core.blocks.caching import CacheRates, LifetimeChoice
from timeloom.core.policy.cache.costs import CacheState, RequestForecast, RequestShape, forecast_request, with_lifetimes
from timeloom.core.view.context.provider_caches import PauseCounts, ProviderCachesView

_TURN_END_PRIOR: Final = (2, 1 / 8)
"""Prior for the share of decisions that end a turn: its weight in decisions, and the share."""

_PAUSE_WITHIN_PRIOR: Final = (50, 0.004)
_PAUSE_BETWEEN_PRIOR: Final = (2, 0.3)
"""Priors for the share of pauses between five minutes and one hour, within a turn and between turns: weight and share.
Each observed pause counts as one."""


def pause_probability(view: ProviderCachesView, *, last: bool) -> float:
    """Return the probability that the next request comes after five minutes and within an hour.

    With `last`, the turn ends with this request.
    """
    weight, share = _TURN_END_PRIOR
    ends = 1.0 if last else (view.turns + weight * share) / (view.calls + weight)
    return ends * _long_pause_share(view.between, *_PAUSE_BETWEEN_PRIOR) + (1 - ends) * _long_pause_share(
        view.within, *_PAUSE_WITHIN_PRIOR
    )


def choose_lifetimes(
    shape: RequestShape, cached: CacheState, rates: CacheRates, share: float, choice: LifetimeChoice = "auto"
) -> RequestForecast:
    """Return the forecast with the cheapest lifetimes.

    A one-hour lifetime costs more to write. It avoids a complete rewrite if the next request comes after five minutes
    and within an hour, which has probability `share`. For shorter and longer pauses the lifetime makes no difference to
    the next request.
    """
    count = len(shape.points)
    if cached.rules.kind == "automatic" or choice == "5m":
        return _forecast_with(shape, cached, 0)
    if choice == "1h":
        return _forecast_with(shape, cached, count)
    short = _forecast_with(shape, cached, 0)
    if short.hit and short.hit.lifetime == "5m" and rates.write_5m < rates.write_1h:
        # A prefix built on a five-minute prefix lasts five minutes (`prefixes_after_request`): an hour would be wasted.
        return short
    forecasts = [short, *(_forecast_with(shape, cached, long) for long in range(1, count + 1))]
    costs = [one.cost(rates) + share * _rewrite_cost(one, shape, rates, cached.at) for one in forecasts]
    return forecasts[costs.index(min(costs))]


def _forecast_with(shape: RequestShape, cached: CacheState, long: int) -> RequestForecast:
    return forecast_request(msgspec.structs.replace(shape, points=with_lifetimes(shape.points, long)), cached)


def _rewrite_cost(made: RequestForecast, shape: RequestShape, rates: CacheRates, at: str) -> float:
    """Return the extra cost of sending the same request again after all five-minute prefixes have expired."""
    lasting = [one.tokens for one in made.after if one.lifetime == "1h" and one.used_at == at]
    end = max((point.tokens for point in made.points if not point.small), default=0)
    lost = shape.scale.to_model_tokens(end) - shape.scale.to_model_tokens(max(lasting, default=0))
    return lost * (rates.write_5m - rates.read)


def _long_pause_share(pauses: PauseCounts, weight: int, share: float) -> float:
    return (weight * share + pauses.over_5m - pauses.over_1h) / (weight + pauses.count)
