"""Compares, for each decision of a log, the expected use of the provider's cache with the reported use."""

from collections.abc import Sequence
from copy import deepcopy

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import Hidden, ModelAnswered, ModelCalled, Pruned, RangeSummary
from timeloom.core.blocks.caching import CacheForecast, CachePoint
from timeloom.core.policy.cache.costs import VERSION
from timeloom.core.policy.cache.misses import (
    PromptChange,
    RequestDetails,
    RequestPair,
    explain_deviation,
    explain_smaller_read,
    find_forgotten_change,
)
from timeloom.core.policy.cache.plan import CachePlanRequest, place_points, plan_cache
from timeloom.core.policy.cache.points import find_cache_points
from timeloom.core.render.prompt import PromptView
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.context.provider_caches import CachedPrefix, ProviderCachesView
from timeloom.core.view.views import Views
from timeloom.runtime.prompt.hashing import system_hash


class CacheRow(msgspec.Struct, frozen=True, kw_only=True):
    """The cache forecast of a call, and why the reported use differs or less was read than possible."""

    expected: CacheForecast
    recorded: bool
    """Whether the call recorded the forecast; for an older call it is computed by the current rules."""
    reported: bool = False
    change: PromptChange | None = None
    """The first block that differs from the previous prompt, and the reason; None if the cache was used as expected."""
    reproduced: bool = True
    """Whether recomputing the forecast from the log gives the same points, lifetimes and numbers."""


class CacheLedger:
    """Follows a log call by call and simulates the cache of each model, starting at the tail of the views."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._cached: ProviderCachesView = deepcopy(views.cached)
        self._changes: list[PromptChange] = []
        self._previous: RequestDetails | None = None
        self._last: RequestDetails | None = None

    def add_forgetting(self, block: Hidden | Pruned | RangeSummary) -> None:
        """Add a block that hides entries; call it before the views add the block."""
        if change := find_forgotten_change(block, self._views.visible):
            self._changes.append(change)

    def add_call(self, entry: Entry, block: ModelCalled, prompt: PromptView, texts: tuple[str, str]) -> CacheRow:
        """Return the row of a decision; call it before the views add it. `texts` are its system text and tail."""
        recomputed = self._recompute_forecast(entry, block, prompt, texts)
        cache = block.cache or recomputed
        now = RequestDetails(cache, block.model, texts[0], block.rendering)
        pair = RequestPair(
            now=now,
            before=self._last,
            changes=self._changes,
            alive=self._is_prefix_alive(block.model, cache),
            edited=self._find_edit(prompt, now),
        )
        row = CacheRow(
            expected=cache,
            recorded=block.cache is not None,
            change=explain_smaller_read(pair),
            reproduced=cache == recomputed or cache.version != VERSION or block.rendering != prompt.renderer.number,
        )
        self._previous, self._last, self._changes = self._last, now, []
        self._cached.add(replace(entry, block=replace(block, cache=cache)))
        return row

    def skip_call(self, entry: Entry) -> None:
        """Add a call whose request is no longer complete."""
        self._cached.add(entry)
        self._last = None

    def add_outcome(self, entry: Entry) -> None:
        """Add the outcome of a call."""
        self._cached.add(entry)

    def complete_row(self, block: ModelAnswered, row: CacheRow) -> CacheRow:
        """Return the call's row with the reported cache use."""
        if was_rejected(block):
            # A rejected request leaves the provider's cache as it was.
            self._last = self._previous
            return replace(row, change=row.change or PromptChange("not_reported"))
        if not block.usage_reported:
            return replace(row, change=row.change or PromptChange("not_reported"))
        return replace(row, reported=True, change=row.change or explain_deviation(row.expected, block.usage))

    def _recompute_forecast(
        self, entry: Entry, block: ModelCalled, prompt: PromptView, texts: tuple[str, str]
    ) -> CacheForecast:
        recorded = block.cache or CacheForecast(at=entry.ts, system=system_hash(texts[0]))
        system_tokens = estimate_tokens(texts[0])
        plan_request = CachePlanRequest(
            model=block.model,
            calibration=self._views.reported.calibrations.get(block.model),
            system=recorded.system,
            system_tokens=system_tokens,
            total_tokens=block.estimated_tokens or prompt.tokens + system_tokens + estimate_tokens(texts[1]),
            at=recorded.at,
            last=recorded.last,
            settings=recorded.settings,
            rates=recorded.rates,
        )
        prompt_delta = prompt.compute_delta(find_cache_points(self._views, recorded.settings).seqs)
        placement = place_points(self._cached, plan_request, prompt_delta.ends, prompt.end_at)
        return plan_cache(self._cached, plan_request, placement, prompt.end_at)

    def _is_prefix_alive(self, model: str, cache: CacheForecast) -> bool:
        """Return whether the longest prefix cached by the previous call must still be cached."""
        left = _usable_points(self._last.cache.points) if self._last else []
        return bool(left) and any(
            _is_same_prefix(one, left[-1]) and one.is_alive(cache.at) for one in self._cached.for_model(model).kept
        )

    def _find_edit(self, prompt: PromptView, now: RequestDetails) -> PromptChange | None:
        """Return the first change of the log that alters a prefix recorded by the previous call, if any."""
        if self._last is None or {self._last.rendering, now.rendering} != {prompt.renderer.number}:
            return None
        seq = 0
        for point in self._last.cache.points:
            end = prompt.end_at(point.blocks) if point.blocks else None
            if point.blocks and (end is None or end.prefix != point.prefix):
                return PromptChange("edit", seq + 1)
            seq = point.seq
        return None


def was_rejected(block: ModelAnswered) -> bool:
    """Return whether the provider rejected the request without processing any of it."""
    usage = block.usage
    return bool(block.error) and not (usage.input_tokens or usage.cache_read_tokens or usage.cache_write_tokens)


def _usable_points(points: Sequence[CachePoint]) -> list[CachePoint]:
    return [point for point in points if not point.small]


def _is_same_prefix(kept: CachedPrefix, point: CachePoint) -> bool:
    return (kept.blocks, kept.prefix) == (point.blocks, point.prefix)
