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

MAX_REQUESTS: Final = 100
"""Most further requests that are expected. More trusts a few early pauses for the rest of a long conversation."""

SHORT_REQUESTS: Final = 15
"""Number of requests after which a conversation is expected to have half as many again. Younger ones often end soon,
before an hour has paid for itself."""

TAIL_REQUESTS: Final = 16
"""Number of requests in which new content stays in the prompt until it is pruned, about what sessions have."""


def pause_probability(view: ProviderCachesView, *, last: bool) -> float:
    """Return the probability that the next request comes after five minutes and within an hour.

    With `last`, the turn ends with this request.
    """
    weight, share = _TURN_END_PRIOR
    ends = 1.0 if last else (view.turns + weight * share) / (view.calls + weight)
    return ends * _long_pause_share(view.between, *_PAUSE_BETWEEN_PRIOR) + (1 - ends) * _long_pause_share(
        view.within, *_PAUSE_WITHIN_PRIOR
    )


class ExpectedPauses(msgspec.Struct, frozen=True):
    """The expected number of pauses between five minutes and one hour for which tokens stay in the prompt.

    `lasting` is for the system text and what was pruned, which stay to the end; `tail` is for everything else.
    """

    lasting: float
    tail: float


def expect_pauses(view: ProviderCachesView, *, last: bool) -> ExpectedPauses:
    """Return the expected pauses; a long conversation is expected to have as many further requests as it had.

    A short one is expected to have fewer (`SHORT_REQUESTS`). With `last`, the turn ends with this request.
    """
    next_pause, later = pause_probability(view, last=last), pause_probability(view, last=False)
    requests = min(MAX_REQUESTS, max(1, view.calls * view.calls / (view.calls + SHORT_REQUESTS)))
    return ExpectedPauses(
        lasting=next_pause + (requests - 1) * later, tail=next_pause + (min(requests, TAIL_REQUESTS) - 1) * later
    )


def choose_lifetimes(
    shape: RequestShape, cached: CacheState, rates: CacheRates, pauses: ExpectedPauses, choice: LifetimeChoice = "auto"
) -> RequestForecast:
    """Return the forecast with the cheapest lifetimes.

    A one-hour lifetime costs more to write, once. It avoids a rewrite at each pause of more than five minutes and less
    than an hour. For shorter and longer pauses the lifetime makes no difference.
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
    costs = [one.cost(rates) + _rewrite_cost(one, shape, rates, cached.at, pauses) for one in forecasts]
    return forecasts[costs.index(min(costs))]


def _forecast_with(shape: RequestShape, cached: CacheState, long: int) -> RequestForecast:
    return forecast_request(msgspec.structs.replace(shape, points=with_lifetimes(shape.points, long)), cached)


def _rewrite_cost(
    made: RequestForecast, shape: RequestShape, rates: CacheRates, at: str, pauses: ExpectedPauses
) -> float:
    """Return the expected extra cost of writing again what the pauses make expire."""
    usable = [shape.scale.to_model_tokens(point.tokens) for point in made.points if not point.small]
    kept = [one.tokens for one in made.after if one.lifetime == "1h" and one.used_at == at]
    kept_tokens = shape.scale.to_model_tokens(max(kept, default=0))
    # The last two points move with the conversation. What precedes them stays.
    end, lasting = max(usable, default=0), max(usable[:-2] or usable[:1], default=0)
    lost_lasting = max(0, lasting - kept_tokens)
    lost_tail = end - max(kept_tokens, lasting)
    return (pauses.lasting * lost_lasting + pauses.tail * max(0, lost_tail)) * (rates.write_5m - rates.read)


def _long_pause_share(pauses: PauseCounts, weight: int, share: float) -> float:
    return (weight * share + pauses.over_5m - pauses.over_1h) / (weight + pauses.count)
