"""Cache arithmetic: what of a request a provider reads from its cache, what it writes, and what that costs."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from timeloom.core.blocks.caching import CacheForecast, CachePoint, CacheRates, Lifetime
from timeloom.core.tokens import Calibration
from timeloom.core.view.context.provider_caches import Anchor, Kept, ModelCache, kept_after

VERSION: Final = 1
"""The version of the arithmetic, which every forecast records. A change of what is chosen changes this."""

CacheKind = Literal["points", "automatic"]
"""Whether a provider keeps the prefixes that a request marks, or whatever it was sent."""

Standing = Callable[[int], str]
"""The hash of the first so many blocks of a request; empty where no prefix of it ends there."""


class CacheRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider does with prefixes.

    Where it keeps what is marked: at most so many points in a request, each found from a point within the look-back
    (which counts the point's own block), each of a least size; a longer lifetime comes before a shorter one. A read
    renews the lifetime of what it reads. Where it is automatic, prefixes count in steps and writing costs nothing.
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


def rules_of(model: str) -> CacheRules:
    """The rules for a model of that name; those of Anthropic where nothing else is known."""
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


class Scale(msgspec.Struct, frozen=True):
    """Our own counts in the model's tokens: by the ratio that its reports have taught, from a prefix it has counted."""

    ratio: float = 1.0
    estimated: int = 0
    reported: int = 0

    def tokens(self, estimated: int) -> int:
        """The model's tokens for so many of ours."""
        if self.estimated and estimated <= self.estimated:
            return estimated * self.reported // self.estimated
        return self.reported + round((estimated - self.estimated) * self.ratio)


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A request as a cache sees it: its points in order and its size, in our own tokens."""

    system: str
    points: tuple[CachePoint, ...]
    total_tokens: int
    scale: Scale = Scale()


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is expected to do: tokens read, written and not cached, and what is kept after it."""

    read: int = 0
    written_5m: int = 0
    written_1h: int = 0
    uncached: int = 0
    hit: CachePoint | None = None
    points: tuple[CachePoint, ...] = ()
    after: tuple[Kept, ...] = ()

    def cost(self, rates: CacheRates) -> float:
        """What it costs, in tokens that are not cached."""
        cached = self.read * rates.read + self.written_5m * rates.write_5m + self.written_1h * rates.write_1h
        return cached + self.uncached


def scale_of(cache: ModelCache, system: str, standing: Standing, calibration: Calibration | None) -> Scale:
    """How our counts of a request become the model's: anchored in the prefix it counted last, if that still stands."""
    ratio = (calibration or Calibration()).ratio
    anchor = cache.anchor
    if anchor is None or not _stands(anchor, system, standing) or anchor.estimated < 1:
        return Scale(ratio)
    return Scale(ratio, anchor.estimated, anchor.reported)


class Cached(msgspec.Struct, frozen=True):
    """A provider's cache at a time, as a request finds it: what is alive, and of that what the request begins with."""

    alive: tuple[Kept, ...]
    standing: tuple[Kept, ...]
    """The longest last."""
    rules: CacheRules
    at: str


def found_at(kept: Sequence[Kept], system: str, standing: Standing, rules: CacheRules, at: str) -> Cached:
    """Those of the prefixes that the provider still has at that time."""
    alive = tuple(one for one in kept if one.is_alive(at))
    stand = sorted((one for one in alive if _stands(one, system, standing)), key=lambda one: one.blocks)
    return Cached(alive, tuple(stand), rules, at)


def forecast(shape: Shape, cached: Cached) -> Forecast:
    """What the provider is expected to do with that request, by what it keeps."""
    scale, rules = shape.scale, cached.rules
    total = scale.tokens(shape.total_tokens)
    points = tuple(
        msgspec.structs.replace(point, small=scale.tokens(point.tokens) < rules.min_tokens) for point in shape.points
    )
    usable = [point for point in points if not point.small]
    hit = _hit(cached.standing, usable, rules)
    read = scale.tokens(hit.tokens) // rules.step_tokens * rules.step_tokens if hit else 0
    end, end_1h = read, read
    if rules.kind == "points":
        end = max([read, *(scale.tokens(point.tokens) for point in usable)])
        end_1h = max([read, *(scale.tokens(point.tokens) for point in usable if point.lifetime == "1h")])
    return Forecast(
        read=read,
        written_1h=end_1h - read,
        written_5m=end - end_1h,
        uncached=max(0, total - end),
        hit=hit,
        points=points,
        after=kept_after(cached.alive, shape.system, points, hit, cached.at),
    )


def with_lifetimes(points: Sequence[CachePoint], long: int) -> tuple[CachePoint, ...]:
    """The points with an hour for the first so many and five minutes for those after them."""
    lifetimes: list[Lifetime] = ["1h" if place < long else "5m" for place in range(len(points))]
    return tuple(
        msgspec.structs.replace(point, lifetime=lifetime) for point, lifetime in zip(points, lifetimes, strict=True)
    )


def reaches(blocks: int, kept: int, rules: CacheRules) -> bool:
    """Whether a provider finds the prefix of `kept` blocks from a point after so many blocks."""
    return 0 <= blocks - kept < rules.look_back_blocks or (rules.kind == "automatic" and blocks >= kept)


def recorded(made: Forecast, asked: CacheForecast) -> CacheForecast:
    """The record of a forecast, filled into what it was asked with."""
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


def _hit(kept: Sequence[Kept], points: Sequence[CachePoint], rules: CacheRules) -> CachePoint | None:
    for one in reversed(kept):
        if any(reaches(point.blocks, one.blocks, rules) for point in points):
            return CachePoint(one.seq, one.blocks, one.tokens, one.prefix, one.lifetime)
    return None


def _stands(one: Kept | Anchor, system: str, standing: Standing) -> bool:
    return one.system == system and (one.blocks == 0 or standing(one.blocks) == one.prefix)
