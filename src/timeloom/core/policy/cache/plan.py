"""The cache plan of a request: its cache points, their lifetimes, and what is expected of the provider's cache."""

from collections.abc import Callable, Sequence

import msgspec

from timeloom.core.blocks.caching import CacheForecast, CachePoint, CacheRates, CacheSettings
from timeloom.core.policy.cache.costs import Cached, Shape, found_at, reaches, recorded, rules_of, scale_of
from timeloom.core.policy.cache.lifetimes import choose_lifetimes, pause_share
from timeloom.core.render.prompt import End
from timeloom.core.tokens import Calibration
from timeloom.core.view.context.provider_caches import CachedView


class CacheAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is made for: the log holds all of it, or records it with the call."""

    model: str
    calibration: Calibration | None = None
    system: str
    """A hash of the system text; empty where there is none."""
    system_tokens: int
    total_tokens: int = 0
    """Our own count of the whole request."""
    at: str
    last: bool = False
    settings: CacheSettings = CacheSettings()
    rates: CacheRates = CacheRates()


EndAt = Callable[[int], End | None]


class Placed(msgspec.Struct, frozen=True):
    """Where points stand, and what the provider keeps of the request that has them."""

    ends: tuple[End, ...]
    found: Cached


def placed(cached: CachedView, asked: CacheAsked, ends: Sequence[End], end_at: EndAt) -> Placed:
    """Where the points stand: one more at the longest prefix that the provider keeps, where it is out of their reach.

    The first gives way where there would be too many: it is of use only if something is forgotten after it, and then
    those behind it are, too.
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
    """The points with the lifetimes that cost least, and the forecast; the same for the same arguments, always."""
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
