"""Harness for prompt caches: cache points, kept prefixes and a model that simulates a provider's cache."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from timeloom.core.blocks import Usage
from timeloom.core.blocks.caching import CachePoint, Lifetime
from timeloom.core.policy.cache.costs import CacheRules
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.context.provider_caches import CachedPrefix
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest, TextSegment
from timeloom.testing import ScriptedModel

RULES = CacheRules(min_tokens=10)
_START = datetime(2026, 2, 9, 2, 0, 0, tzinfo=UTC)
SECONDS: dict[Lifetime, int] = {"5m": 300, "1h": 3600}


def timestamp_after(seconds: float) -> str:
    """Return the timestamp that many seconds after the start."""
    return (_START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def make_cache_point(blocks: int, size: int, lifetime: Lifetime = "5m") -> CachePoint:
    """Return a cache point after that many blocks and after the entry of that number."""
    return CachePoint(blocks, blocks, size, prefix_hash(blocks) if blocks else "", lifetime)


def make_kept_prefix(blocks: int, size: int, lifetime: Lifetime = "5m", at: float = 0) -> CachedPrefix:
    """Return a prefix of that many blocks, last used at that time."""
    return CachedPrefix("s", prefix_hash(blocks) if blocks else "", blocks, blocks, size, lifetime, timestamp_after(at))


def prefix_hash(blocks: int) -> str:
    """Return the hash of a prefix of that many blocks."""
    return f"p{blocks}"


class CachingModel:
    """A scripted model behind a prompt cache, with its own clock and its own token count."""

    def __init__(self, model: ScriptedModel, *, ratio: float = 1.25, name: str = "anthropic:claude-sonnet-4-5") -> None:
        self._model = model
        self._ratio = ratio
        self.name = name
        self.window_tokens = model.window_tokens
        self.requests: list[ModelRequest] = []
        self.now_s = 0.0
        self._kept: dict[tuple[str, ...], tuple[float, Lifetime]] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Stream the scripted reply with the usage that the cache reports for the request."""
        self.requests.append(request)
        async for event in self._model.stream(request):
            if isinstance(event, FinishEvent):
                yield replace(event, usage=self.compute_usage(request))
            else:
                yield event

    def compute_usage(self, request: ModelRequest) -> Usage:
        """Return the tokens read and written, and update the kept prefixes."""
        texts = [request.system, *(one.text if isinstance(one, TextSegment) else one.mime for one in request.segments)]
        points: list[tuple[int, Lifetime]] = [(1, request.system_cache_lifetime)]
        points.extend((at + 2, one.cache_lifetime) for at, one in enumerate(request.segments) if one.cache_point)
        found = [len(prefix) for count, _ in points for prefix in self._find_prefixes(texts, count)]
        read = max(found, default=0)
        if read:
            self._renew(tuple(texts[:read]), "5m")
        for count, lifetime in points:
            self._renew(tuple(texts[:count]), lifetime)
        last = max(count for count, _ in points)
        longest = max([read, *(count for count, lifetime in points if lifetime == "1h")])
        return Usage(
            input_tokens=self._tokens(texts) - self._tokens(texts[:last]),
            cache_read_tokens=self._tokens(texts[:read]),
            cache_write_tokens=self._tokens(texts[:last]) - self._tokens(texts[:read]),
            cache_write_1h_tokens=self._tokens(texts[:longest]) - self._tokens(texts[:read]),
            output_tokens=10,
        )

    def _find_prefixes(self, texts: list[str], count: int) -> list[tuple[str, ...]]:
        prefixes = [tuple(texts[:end]) for end in range(count, max(0, count - 20), -1)]
        return [prefix for prefix in prefixes if self._has(prefix)]

    def _has(self, prefix: tuple[str, ...]) -> bool:
        used_s, lifetime = self._kept.get(prefix, (-1e9, "5m"))
        return self.now_s - used_s < SECONDS[lifetime]

    def _renew(self, prefix: tuple[str, ...], lifetime: Lifetime) -> None:
        self._kept[prefix] = (self.now_s, self._kept[prefix][1] if self._has(prefix) else lifetime)

    def _tokens(self, texts: list[str]) -> int:
        return round(self._ratio * sum(map(estimate_tokens, texts)))

    async def close(self) -> None:
        """Do nothing: no connection is open."""
