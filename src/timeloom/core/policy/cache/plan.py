"""Plans the cache points of a request, their lifetimes, and the expected cache reads and writes."""

from collections.abc import Callable, Sequence

import msgspec

from timeloom.core.blocks.caching import CacheForecast, CachePoint, CacheRates, CacheSettings
from timeloom.core.policy.cache.costs import (
    CacheState,
    RequestShape,
    cache_rules_for,
    can_reach,
    expected_calibration,
    fill_forecast,
    find_cache_state,
    token_scale_for,
)
from timeloom.core.policy.cache.lifetimes import choose_lifetimes, expect_pauses
from timeloom.core.render.prompt import PrefixEnd
from timeloom.core.tokens import Calibration
from timeloom.core.view.context.provider_caches import ProviderCachesView


class CachePlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a cache plan. All of it is in the log or is recorded with the model call."""

    model: str
    calibration: Calibration | None = None
    system: str
    """A hash of the system text; empty if there is none."""
    system_tokens: int
    total_tokens: int = 0
    """The estimated size of the whole request."""
    at: str
    last: bool = False
    settings: CacheSettings = CacheSettings()
    rates: CacheRates = CacheRates()


PrefixEndAt = Callable[[int], PrefixEnd | None]


class CachePlacement(msgspec.Struct, frozen=True):
    """The positions of the cache points, and the provider's cache that the request finds."""

    ends: tuple[PrefixEnd, ...]
    cache_state: CacheState


def place_points(
    cached: ProviderCachesView, asked: CachePlanRequest, ends: Sequence[PrefixEnd], end_at: PrefixEndAt
) -> CachePlacement:
    """Return the positions of the cache points.

    If no point reaches the longest cached prefix, a point is added there. The first point gives way if there would be
    too many: it helps only if a later entry is forgotten, and then the points after it are lost as well.
    """
    rules = cache_rules_for(asked.model)
    cache_state = find_cache_state(
        cached.for_model(asked.model).kept, asked.system, _prefix_hashes(end_at), rules, asked.at
    )
    longest = end_at(cache_state.matching[-1].blocks) if cache_state.matching else None
    if longest is None or any(can_reach(end.blocks, longest.blocks, rules) for end in ends):
        return CachePlacement(tuple(ends), cache_state)
    # One of the points is on the system text.
    others = ends[-(rules.max_points - 2) :]
    return CachePlacement(tuple(sorted([longest, *others], key=lambda end: end.blocks)), cache_state)


def plan_cache(
    cached: ProviderCachesView, asked: CachePlanRequest, at: CachePlacement, end_at: PrefixEndAt
) -> CacheForecast:
    """Return the points with the cheapest lifetimes and the forecast; equal arguments give equal results."""
    shape = RequestShape(
        system=asked.system,
        points=_points(asked, at.ends),
        total_tokens=asked.total_tokens,
        scale=token_scale_for(
            cached.for_model(asked.model),
            asked.system,
            _prefix_hashes(end_at),
            asked.calibration or expected_calibration(asked.model),
        ),
    )
    made = choose_lifetimes(
        shape, at.cache_state, asked.rates, expect_pauses(cached, last=asked.last), asked.settings.lifetime
    )
    blank = CacheForecast(at=asked.at, system=asked.system, last=asked.last, settings=asked.settings, rates=asked.rates)
    return fill_forecast(made, blank)


def _points(asked: CachePlanRequest, ends: Sequence[PrefixEnd]) -> tuple[CachePoint, ...]:
    system = [CachePoint(0, 0, asked.system_tokens)] if asked.system else []
    tokens = asked.system_tokens
    return (*system, *(CachePoint(end.seq, end.blocks, tokens + end.tokens, end.prefix) for end in ends))


def _prefix_hashes(end_at: PrefixEndAt) -> Callable[[int], str]:
    return lambda blocks: end.prefix if (end := end_at(blocks)) else ""
