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

_CLAUDE_RATIO: Final = 1.35
"""Billed tokens of Claude for an estimated one. Two recorded sessions of 291 requests have 1.36 and 1.44."""


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


def expected_calibration(model: str) -> Calibration:
    """Return the ratio of reported to estimated tokens that is expected before the model has reported any."""
    return Calibration(_CLAUDE_RATIO if model.startswith("anthropic:") else 1.0)


class TokenScale(msgspec.Struct, frozen=True):
    """Converts estimated tokens to the model's tokens, by a learned ratio and the prefixes of known size.

    `anchors` are pairs of estimated and reported tokens, both ascending.
    """

    ratio: float = 1.0
    anchors: tuple[tuple[int, int], ...] = ()
    tail_ratio: float | None = None
    """The ratio after the last cache point, if it was learned."""

    def to_model_tokens(self, estimated: int) -> int:
        """Return the model's tokens for an estimated number of tokens."""
        below = reported = 0
        for known, counted in self.anchors:
            if estimated <= known:
                return reported + (estimated - below) * (counted - reported) // (known - below)
            below, reported = known, counted
        return reported + round((estimated - below) * self.ratio)


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
    """Return the token conversion for a request, anchored at the measured prefixes that the request still has.

    What follows them is converted by the ratio of the content that was written before. `calibration` is the ratio of
    whole prompts.
    """
    ratio = (calibration or Calibration()).ratio
    standing = [one for one in cache.anchors if _is_request_prefix(one, system, prefix_at)]
    anchors: list[tuple[int, int]] = []
    for one in sorted(standing, key=lambda one: one.blocks):
        last_estimated, last_reported = anchors[-1] if anchors else (0, 0)
        if one.estimated > last_estimated and one.reported > last_reported:
            anchors.append((one.estimated, one.reported))
    # Without an anchor, most of the prompt is the system text.
    content = cache.content.ratio(ratio) if anchors else ratio
    return TokenScale(content, tuple(anchors), cache.tail.ratio(ratio) if cache.tail.estimated else None)


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
        uncached=_uncached_tokens(shape, usable if rules.kind == "points" else (), end),
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


def _uncached_tokens(shape: RequestShape, usable: Sequence[CachePoint], end: int) -> int:
    """Return the tokens after the last cache point, which is at `end`."""
    scale = shape.scale
    if usable and scale.tail_ratio is not None:
        return max(0, round((shape.total_tokens - usable[-1].tokens) * scale.tail_ratio))
    return max(0, scale.to_model_tokens(shape.total_tokens) - end)


def _find_hit(kept: Sequence[CachedPrefix], points: Sequence[CachePoint], rules: CacheRules) -> CachePoint | None:
    for one in reversed(kept):
        if any(can_reach(point.blocks, one.blocks, rules) for point in points):
            return CachePoint(one.seq, one.blocks, one.tokens, one.prefix, one.lifetime)
    return None


def _is_request_prefix(one: CachedPrefix | MeasuredPrefix, system: str, prefix_at: PrefixHashAt) -> bool:
    return one.system == system and (one.blocks == 0 or prefix_at(one.blocks) == one.prefix)
