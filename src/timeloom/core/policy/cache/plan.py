"""Plans the cache points of a request, their lifetimes, and the expected cache reads and writes."""

from collections.abc import Callable, Sequence

import msgspec

from timeloom.core.blocks.caching import CacheForecast, CachePoint, CacheRates, CacheSettings
from timeloom.core.policy.cache.costs import Cached, Shape, found_at, reaches, recorded, rules_of, scale_of
from timeloom.core.policy.cache.lifetimes import choose_lifetimes, pause_share
from timeloom.core.render.prompt import End
from timeloom.core.tokens import Calibration
from timeloom.core.view.context.provider_caches import CachedView


class CacheAsked(msgspec.Struct, frozen=True, kw_only=True):
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


EndAt = Callable[[int], End | None]


class Placed(msgspec.Struct, frozen=True):
    """The positions of the cache points, and the provider's cache that the request finds."""

    ends: tuple[End, ...]
    found: Cached


def placed(cached: CachedView, asked: CacheAsked, ends: Sequence[End], end_at: EndAt) -> Placed:
    """Return the positions of the cache points.

    If no point reaches the longest cached prefix, a point is added there. The first point gives way if there would be
    too many: it helps only if a later entry is forgotten, and then the points after it are lost as well.
    """
    rules = rules_of(asked.model)
    found = found_at(cached.of(asked.model).kept, asked.system, _standing(end_at), rules, asked.at)
    there = end_at(found.standing[-1].blocks) if found.standing else None
    if there is None or any(reaches(end.blocks, there.blocks, rules) for end in ends):
        return Placed(tuple(ends), found)
    # One of the points is on the system text.
    others = ends[-(rules.max_points - 2) :]
    return Placed(tuple(sorted([there, *others], key=lambda end: end.blocks)), found)


def planned(cached: CachedView, asked: CacheAsked, at: Placed, end_at: EndAt) -> CacheForecast:
    """Return the points with the cheapest lifetimes and the forecast; equal arguments give equal results."""
    shape = Shape(
        system=asked.system,
        points=_points(asked, at.ends),
        total_tokens=asked.total_tokens,
        scale=scale_of(cached.of(asked.model), asked.system, _standing(end_at), asked.calibration),
    )
    made = choose_lifetimes(shape, at.found, asked.rates, pause_share(cached, last=asked.last), asked.settings.lifetime)
    blank = CacheForecast(at=asked.at, system=asked.system, last=asked.last, settings=asked.settings, rates=asked.rates)
    return recorded(made, blank)


def _points(asked: CacheAsked, ends: Sequence[End]) -> tuple[CachePoint, ...]:
    system = [CachePoint(0, 0, asked.system_tokens)] if asked.system else []
    tokens = asked.system_tokens
    return (*system, *(CachePoint(end.seq, end.blocks, tokens + end.tokens, end.prefix) for end in ends))


def _standing(end_at: EndAt) -> Callable[[int], str]:
    return lambda blocks: end.prefix if (end := end_at(blocks)) else ""
