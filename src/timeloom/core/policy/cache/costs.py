"""Forecasts which tokens of a request a provider reads from its cache or writes to it, and their cost."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from timeloom.core.blocks.caching import CacheForecast, CachePoint, CacheRates, Lifetime
from timeloom.core.tokens import Calibration
from timeloom.core.view.context.provider_caches import CachedPrefix, MeasuredPrefix, ModelCache, prefixes_after_request

VERSION: Final = 2
"""The version of this forecast, recorded with every model call. Increase it when the chosen cache points or lifetimes
change."""

CacheKind = Literal["points", "automatic"]
"""Whether a provider caches the prefixes that a request marks (`points`) or every prompt (`automatic`)."""

PrefixHashAt = Callable[[int], str]
"""Maps a number of blocks to the hash of that prefix of the request; empty if no prefix ends there."""


class CacheRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which a provider caches prefixes.

    With `points`, a request has at most `max_points` points. The provider looks back from each point over
    `look_back_blocks` blocks, including the block of the point. A prefix needs `min_tokens` tokens, and longer
    lifetimes precede shorter ones. A read renews the lifetime of the prefix. With `automatic`, prefixes count in steps
    of `step_tokens` and writing is free.
    """

    kind: CacheKind = "points"
    max_points: int = 4
    look_back_blocks: int = 20
    min_tokens: int = 1024
    step_tokens: int = 1


_AUTOMATIC: Final = CacheRules(kind="automatic", min_tokens=1024, step_tokens=128)
_LOCAL: Final = CacheRules(kind="automatic", min_tokens=1)

_LEAST_4096: Final = ("claude-opus-4-5", "claude-opus-4-6", "claude-opus-4-7", "claude-haiku-4-5")
_LEAST_2048: Final = ("claude-3-5-haiku", "claude-3-haiku")


def cache_rules_for(model: str) -> CacheRules:
    """Return the cache rules of the model; unknown models get Anthropic's rules."""
    provider, _, name = model.partition(":")
    match provider:
        case "openai":
            return _AUTOMATIC
        case "local":
            return _LOCAL
        case _:
            pass
    if name.startswith(_LEAST_4096):
        return CacheRules(min_tokens=4096)
    return CacheRules(min_tokens=2048) if name.startswith(_LEAST_2048) else CacheRules()


class TokenScale(msgspec.Struct, frozen=True):
    """Converts estimated tokens to the model's tokens, by a learned ratio and an already measured prefix."""

    ratio: float = 1.0
    estimated: int = 0
    reported: int = 0

    def to_model_tokens(self, estimated: int) -> int:
        """Return the model's tokens for an estimated number of tokens."""
        if self.estimated and estimated <= self.estimated:
            return estimated * self.reported // self.estimated
        return self.reported + round((estimated - self.estimated) * self.ratio)


class RequestShape(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that matters to a cache: its points in order and its estimated size."""

    system: str
    points: tuple[CachePoint, ...]
    total_tokens: int
    scale: TokenScale = TokenScale()


class RequestForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The expected effect of a request: tokens read, written and uncached, and the prefixes cached afterwards."""

    read: int = 0
    written_5m: int = 0
    written_1h: int = 0
    uncached: int = 0
    hit: CachePoint | None = None
    points: tuple[CachePoint, ...] = ()
    after: tuple[CachedPrefix, ...] = ()

    def cost(self, rates: CacheRates) -> float:
        """Return the cost of the request, in units of one uncached input token."""
        cached = self.read * rates.read + self.written_5m * rates.write_5m + self.written_1h * rates.write_1h
        return cached + self.uncached


def token_scale_for(
    cache: ModelCache, system: str, prefix_at: PrefixHashAt, calibration: Calibration | None
) -> TokenScale:
    """Return the token conversion for a request, anchored at the measured prefix if the request still has it."""
    ratio = (calibration or Calibration()).ratio
    anchor = cache.anchor
    if anchor is None or not _is_request_prefix(anchor, system, prefix_at) or anchor.estimated < 1:
        return TokenScale(ratio)
    return TokenScale(ratio, anchor.estimated, anchor.reported)


class CacheState(msgspec.Struct, frozen=True):
    """A provider's cache when a request arrives: the live prefixes, and those among them that the request has."""

    alive: tuple[CachedPrefix, ...]
    matching: tuple[CachedPrefix, ...]
    """The prefixes that the request begins with, longest last."""
    rules: CacheRules
    at: str


def find_cache_state(
    kept: Sequence[CachedPrefix], system: str, prefix_at: PrefixHashAt, rules: CacheRules, at: str
) -> CacheState:
    """Return the provider's cache at that time, as a request with these prefix hashes finds it."""
    alive = tuple(one for one in kept if one.is_alive(at))
    matching = sorted((one for one in alive if _is_request_prefix(one, system, prefix_at)), key=lambda one: one.blocks)
    return CacheState(alive, tuple(matching), rules, at)


def forecast_request(shape: RequestShape, cached: CacheState) -> RequestForecast:
    """Return the expected effect of the request on the provider's cache."""
    scale, rules = shape.scale, cached.rules
    total = scale.to_model_tokens(shape.total_tokens)
    points = tuple(
        msgspec.structs.replace(point, small=scale.to_model_tokens(point.tokens) < rules.min_tokens)
        for point in shape.points
    )
    usable = [point for point in points if not point.small]
    hit = _find_hit(cached.matching, usable, rules)
    read = scale.to_model_tokens(hit.tokens) // rules.step_tokens * rules.step_tokens if hit else 0
    end, end_1h = read, read
    if rules.kind == "points":
        end = max([read, *(scale.to_model_tokens(point.tokens) for point in usable)])
        end_1h = max([read, *(scale.to_model_tokens(point.tokens) for point in usable if point.lifetime == "1h")])
    return RequestForecast(
        read=read,
        written_1h=end_1h - read,
        written_5m=end - end_1h,
        uncached=max(0, total - end),
        hit=hit,
        points=points,
        after=prefixes_after_request(cached.alive, shape.system, points, hit, cached.at),
    )


def with_lifetimes(points: Sequence[CachePoint], long: int) -> tuple[CachePoint, ...]:
    """Return the points with a lifetime of one hour for the first `long` and five minutes for the rest."""
    lifetimes: list[Lifetime] = ["1h" if place < long else "5m" for place in range(len(points))]
    return tuple(
        msgspec.structs.replace(point, lifetime=lifetime) for point, lifetime in zip(points, lifetimes, strict=True)
    )


def can_reach(blocks: int, kept: int, rules: CacheRules) -> bool:
    """Whether a provider finds the cached prefix of `kept` blocks from a point after `blocks` blocks."""
    return 0 <= blocks - kept < rules.look_back_blocks or (rules.kind == "automatic" and blocks >= kept)


def fill_forecast(made: RequestForecast, asked: CacheForecast) -> CacheForecast:
    """Return the record of a forecast: `asked` with the results filled in."""
    return msgspec.structs.replace(
        asked,
        points=made.points,
        hit=made.hit,
        read_tokens=made.read,
        written_5m_tokens=made.written_5m,
        written_1h_tokens=made.written_1h,
        uncached_tokens=made.uncached,
        version=VERSION,
    )


def _find_hit(kept: Sequence[CachedPrefix], points: Sequence[CachePoint], rules: CacheRules) -> CachePoint | None:
    for one in reversed(kept):
        if any(can_reach(point.blocks, one.blocks, rules) for point in points):
            return CachePoint(one.seq, one.blocks, one.tokens, one.prefix, one.lifetime)
    return None


def _is_request_prefix(one: CachedPrefix | MeasuredPrefix, system: str, prefix_at: PrefixHashAt) -> bool:
    return one.system == system and (one.blocks == 0 or prefix_at(one.blocks) == one.prefix)
