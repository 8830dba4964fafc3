"""The caches of providers as far as the log tells: which prefixes they keep, and which pauses those must last."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.blocks import ModelAnswered, ModelCalled
from timeloom.core.blocks.caching import CacheForecast, CachePoint, Lifetime
from timeloom.core.ids import TurnId
from timeloom.core.timeline import NO_TURN, Entry, is_timestamp, microseconds_between
from timeloom.core.tokens import is_plausible

LIFETIME_S: Final[dict[Lifetime, int]] = {"5m": 300, "1h": 3600}

MAX_KEPT: Final = 24
"""Most prefixes that are remembered of a model. More than a look-back of 20 blocks can find are of no use."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A prefix that a provider keeps: by the hashes of the system text and of the blocks after it."""

    system: str
    prefix: str
    seq: int
    blocks: int
    tokens: int
    lifetime: Lifetime
    used_at: str

    def is_alive(self, at: str) -> bool:
        """Whether the provider still has it at that time."""
        return microseconds_between(self.used_at, at) < LIFETIME_S[self.lifetime] * 1_000_000


class Anchor(msgspec.Struct, frozen=True, gc=False):
    """A prefix whose size the provider has told: our own count of it, and the provider's."""

    system: str
    prefix: str
    blocks: int
    estimated: int
    reported: int


class Pauses(msgspec.Struct, gc=False):
    """How many pauses there were, and how many of them a short and a long lifetime do not last."""

    count: int = 0
    over_5m: int = 0
    over_1h: int = 0

    def add(self, microseconds: int) -> None:
        """Takes in a pause."""
        self.count += 1
        self.over_5m += microseconds >= LIFETIME_S["5m"] * 1_000_000
        self.over_1h += microseconds >= LIFETIME_S["1h"] * 1_000_000


class ModelCache(msgspec.Struct):
    """The cache of one model: what it keeps, and what it kept before the call that is under way."""

    kept: tuple[Kept, ...] = ()
    before: tuple[Kept, ...] = ()
    asked: CacheForecast | None = None
    """The call that is under way."""
    anchor: Anchor | None = None


class CachedView(msgspec.Struct):
    """For each model, under the name by which it is asked, its cache; and the pauses between decisions."""

    models: dict[str, ModelCache] = {}
    within: Pauses = msgspec.field(default_factory=Pauses)
    """Between two decisions of one turn."""
    between: Pauses = msgspec.field(default_factory=Pauses)
    """Between the last decision of a turn and the first of the next."""
    calls: int = 0
    turns: int = 0
    turn_id: TurnId = NO_TURN
    called_at: str = ""
    model: str = ""
    """Which model was asked for the newest decision."""

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        match entry.block:
            case ModelCalled(purpose="decision") as call:
                self._add_call(entry, call)
            case ModelAnswered(purpose="decision") as answer if self.model in self.models:
                _learn(self.models[self.model], answer)
            case _:
                pass

    def of(self, model: str) -> ModelCache:
        """What is known of that model's cache."""
        return self.models.get(model) or ModelCache()

    def _add_call(self, entry: Entry, call: ModelCalled) -> None:
        fresh = entry.turn_id != self.turn_id
        if self.called_at:
            (self.between if fresh else self.within).add(microseconds_between(self.called_at, entry.ts))
        self.calls += 1
        self.turns += fresh
        self.turn_id, self.called_at, self.model = entry.turn_id, entry.ts, call.model
        if call.cache:
            cache = self.models.setdefault(call.model, ModelCache())
            at = call.cache.at if is_timestamp(call.cache.at) else entry.ts
            cache.before, cache.asked = cache.kept, call.cache
            alive = [one for one in cache.kept if one.is_alive(at)]
            cache.kept = kept_after(alive, call.cache.system, call.cache.points, call.cache.hit, at)


def kept_after(
    alive: Sequence[Kept], system: str, points: Sequence[CachePoint], hit: CachePoint | None, at: str
) -> tuple[Kept, ...]:
    """What a provider keeps after a request with these points that read the prefix up to `hit`.

    Of those that are alive, each point renews one or leaves another; the one that was read is renewed, too. A prefix
    that is there keeps the lifetime it was written with, and a new one lasts an hour only where what it was built on
    does: what a provider makes of an hour over five minutes nobody has written down, and this is the safer guess.
    """
    longest: Lifetime = hit.lifetime if hit else "1h"
    kept = {(one.system, one.prefix, one.blocks): one for one in alive}
    for point in [*([hit] if hit else []), *points]:
        if point.small:
            continue
        there = kept.pop((system, point.prefix, point.blocks), None)
        lifetime = there.lifetime if there else min(point.lifetime, longest, key=LIFETIME_S.__getitem__)
        # Put in again at the end, so that those that nobody uses come first.
        kept[system, point.prefix, point.blocks] = Kept(
            system, point.prefix, point.seq, point.blocks, point.tokens, lifetime, at
        )
    return tuple(kept.values())[-MAX_KEPT:]


def _learn(cache: ModelCache, answer: ModelAnswered) -> None:
    asked, cache.asked = cache.asked, None
    usage = answer.usage
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    if asked is None:
        return
    if answer.error and not (cached or usage.input_tokens):
        # It was turned away, so nothing was read or written.
        cache.kept = cache.before
    elif usage.cache_write_tokens and (kept := [point for point in asked.points if not point.small]):
        # Who reports what was written has read or written exactly what stands before the last point.
        last = kept[-1]
        if is_plausible(last.tokens, cached):
            cache.anchor = Anchor(asked.system, last.prefix, last.blocks, last.tokens, cached)
