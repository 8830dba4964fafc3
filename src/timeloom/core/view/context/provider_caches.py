"""The view of the prefixes that providers cache, and of the pauses that their lifetimes must cover."""

from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec

from timeloom.core.blocks import ModelAnswered, ModelCalled, Usage
from timeloom.core.blocks.caching import CacheForecast, CachePoint, Lifetime
from timeloom.core.ids import TurnId
from timeloom.core.timeline import NO_TURN, Entry, is_timestamp, microseconds_between
from timeloom.core.tokens import is_plausible
from timeloom.core.view.block_view import BlockView, Folds

LIFETIME_S: Final[dict[Lifetime, int]] = {"5m": 300, "1h": 3600}

MAX_PREFIXES: Final = 24
"""Maximum number of remembered prefixes per model. More than a look-back of 20 blocks can find are useless."""

MAX_ANCHORS: Final = 16
"""Maximum number of measured prefixes per model. Those at current cache points stay, so the newest rounds share the
rest; a prune or a hidden block returns to one of them."""

RATIO_TOKENS: Final = 30_000
"""Estimated tokens after which older content counts half. Less follows a single large result; more follows a change
from prose to code too late."""

PRIOR_TOKENS: Final = 500
"""Weight of the ratio of whole prompts where that of a kind of content is asked for, in estimated tokens."""


class CachedPrefix(msgspec.Struct, frozen=True, gc=False):
    """A cached prefix, identified by the hashes of the system text and of the blocks after it."""

    system: str
    prefix: str
    seq: int
    blocks: int
    tokens: int
    lifetime: Lifetime
    used_at: str

    def is_alive(self, at: str) -> bool:
        """Whether the lifetime of the prefix is still running at that time."""
        return microseconds_between(self.used_at, at) < LIFETIME_S[self.lifetime] * 1_000_000


class MeasuredPrefix(msgspec.Struct, frozen=True, gc=False):
    """A prefix whose size the provider reported: our estimate of it, and the reported number."""

    system: str
    prefix: str
    blocks: int
    estimated: int
    reported: int


class ContentRatio(msgspec.Struct, frozen=True, gc=False):
    """The estimated and the reported tokens of one kind of content, summed; older content counts less.

    A prompt has no single ratio: its system text, which is most of a short prompt, is of another kind than results.
    """

    estimated: int = 0
    reported: int = 0

    def add(self, estimated: int, reported: int) -> "ContentRatio":
        """Return the sums with new content."""
        past = 2 if self.estimated > RATIO_TOKENS else 1
        return ContentRatio(self.estimated // past + estimated, self.reported // past + reported)

    def ratio(self, prior: float) -> float:
        """Return the reported tokens of an estimated one; `prior` counts as much as some content."""
        return (PRIOR_TOKENS * prior + self.reported) / (PRIOR_TOKENS + self.estimated)


class PauseCounts(msgspec.Struct, gc=False):
    """The number of pauses, and how many of them exceed the short and the long lifetime."""

    count: int = 0
    over_5m: int = 0
    over_1h: int = 0

    def add(self, microseconds: int) -> None:
        """Count one pause."""
        self.count += 1
        self.over_5m += microseconds >= LIFETIME_S["5m"] * 1_000_000
        self.over_1h += microseconds >= LIFETIME_S["1h"] * 1_000_000


class ModelCache(msgspec.Struct):
    """The cache of one model: the current prefixes, and those before the open call."""

    kept: tuple[CachedPrefix, ...] = ()
    before: tuple[CachedPrefix, ...] = ()
    asked: CacheForecast | None = None
    """The forecast of the open call."""
    anchors: tuple[MeasuredPrefix, ...] = ()
    """Prefixes of known size, the least recently used first."""
    content: ContentRatio = ContentRatio()
    """What was written to the cache."""
    tail: ContentRatio = ContentRatio()
    """What followed the last cache point, which is never cached."""
    asked_tokens: int = 0
    """Our estimate of the open call."""


class ProviderCachesView(BlockView, msgspec.Struct):
    """The cache of each model by its requested name, and the pauses between decisions."""

    models: dict[str, ModelCache] = {}
    within: PauseCounts = msgspec.field(default_factory=PauseCounts)
    """Between two decisions of one turn."""
    between: PauseCounts = msgspec.field(default_factory=PauseCounts)
    """Between the last decision of a turn and the first of the next."""
    calls: int = 0
    turns: int = 0
    turn_id: TurnId = NO_TURN
    called_at: str = ""
    model: str = ""
    """The model of the newest decision."""

    def for_model(self, model: str) -> ModelCache:
        """Return the known cache of that model."""
        return self.models.get(model) or ModelCache()

    def _add_answer(self, _: Entry, answer: ModelAnswered) -> None:
        if answer.purpose == "decision" and self.model in self.models:
            _apply_usage(self.models[self.model], answer)

    def _add_call(self, entry: Entry, call: ModelCalled) -> None:
        if call.purpose != "decision":
            return
        fresh = entry.turn_id != self.turn_id
        if self.called_at:
            (self.between if fresh else self.within).add(microseconds_between(self.called_at, entry.ts))
        self.calls += 1
        self.turns += fresh
        self.turn_id, self.called_at, self.model = entry.turn_id, entry.ts, call.model
        if call.cache:
            cache = self.models.setdefault(call.model, ModelCache())
            at = call.cache.at if is_timestamp(call.cache.at) else entry.ts
            cache.before, cache.asked, cache.asked_tokens = cache.kept, call.cache, call.estimated_tokens
            alive = [one for one in cache.kept if one.is_alive(at)]
            cache.kept = prefixes_after_request(alive, call.cache.system, call.cache.points, call.cache.hit, at)

    folds: ClassVar[Folds] = {ModelCalled: _add_call, ModelAnswered: _add_answer}


def prefixes_after_request(
    alive: Sequence[CachedPrefix], system: str, points: Sequence[CachePoint], hit: CachePoint | None, at: str
) -> tuple[CachedPrefix, ...]:
    """Return the cached prefixes after a request with these points that read the prefix up to `hit`.

    Each point renews a live prefix or adds one, and `hit` is renewed as well. An existing prefix keeps the lifetime it
    was written with. A new prefix lasts an hour only if the prefix it extends does. Providers do not document that
    case, and this is the safer assumption.
    """
    longest: Lifetime = hit.lifetime if hit else "1h"
    kept = {(one.system, one.prefix, one.blocks): one for one in alive}
    for point in [*([hit] if hit else []), *points]:
        if point.small:
            continue
        existing = kept.pop((system, point.prefix, point.blocks), None)
        lifetime = existing.lifetime if existing else min(point.lifetime, longest, key=LIFETIME_S.__getitem__)
        # Inserted at the end, so that the least recently used prefixes come first.
        kept[system, point.prefix, point.blocks] = CachedPrefix(
            system, point.prefix, point.seq, point.blocks, point.tokens, lifetime, at
        )
    return tuple(kept.values())[-MAX_PREFIXES:]


def _apply_usage(cache: ModelCache, answer: ModelAnswered) -> None:
    asked, cache.asked = cache.asked, None
    usage = answer.usage
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    if asked is None:
        return
    if answer.error and not (cached or usage.input_tokens):
        # The provider rejected the request, so nothing was read or written.
        cache.kept = cache.before
    elif usage.cache_write_tokens:
        _measure_prefixes(cache, asked, usage)


def _measure_prefixes(cache: ModelCache, asked: CacheForecast, usage: Usage) -> None:
    """Learn from a provider that reports writes: it has read or written exactly the prefix up to the last point."""
    usable = [point for point in asked.points if not point.small]
    known = {(one.system, one.prefix, one.blocks): one for one in cache.anchors}
    read, hit = usage.cache_read_tokens, asked.hit
    found = known.get((asked.system, hit.prefix, hit.blocks)) if hit else None
    # A provider that has lost the expected prefix may read a shorter one, whose size this would be.
    is_read = abs(read - (found.reported if found else asked.read_tokens)) * (50 if found else 4) <= read
    measured = [(hit, read)] if hit and is_read else []
    measured += [(point, read + usage.cache_write_tokens) for point in usable[-1:]]
    for point in usable:
        # A prefix that is used stays: it is inserted at the end again.
        if one := known.pop((asked.system, point.prefix, point.blocks), None):
            known[one.system, one.prefix, one.blocks] = one
    for point, reported in measured:
        if is_plausible(point.tokens, reported):
            key = asked.system, point.prefix, point.blocks
            known.pop(key, None)
            known[key] = MeasuredPrefix(*key, point.tokens, reported)
    cache.anchors = tuple(known.values())[-MAX_ANCHORS:]
    end = usable[-1].tokens if usable else 0
    if hit and is_read and is_plausible(end - hit.tokens, usage.cache_write_tokens):
        cache.content = cache.content.add(end - hit.tokens, usage.cache_write_tokens)
    if is_plausible(cache.asked_tokens - end, usage.input_tokens):
        cache.tail = cache.tail.add(cache.asked_tokens - end, usage.input_tokens)
