"""Compares, for each decision of a log, the expected use of the provider's cache with the reported use."""

from collections.abc import Sequence
from copy import deepcopy

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import Hidden, ModelAnswered, ModelCalled, Pruned, RangeSummary
from timeloom.core.blocks.caching import CacheForecast, CachePoint
from timeloom.core.policy.cache.costs import VERSION
from timeloom.core.policy.cache.misses import Asked, Case, Change, forgotten, why_less, why_otherwise
from timeloom.core.policy.cache.plan import CacheAsked, placed, planned
from timeloom.core.policy.cache.points import cache_points
from timeloom.core.render.prompt import RENDERING, PromptView
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate
from timeloom.core.view.context.provider_caches import CachedView, Kept
from timeloom.core.view.views import Views
from timeloom.runtime.prompt.builder import system_hash


class CacheRow(msgspec.Struct, frozen=True, kw_only=True):
    """The cache forecast of a call, and why the reported use differs or less was read than possible."""

    expected: CacheForecast
    recorded: bool
    """Whether the call recorded the forecast; for an older call it is computed by the current rules."""
    reported: bool = False
    change: Change | None = None
    """The first block that differs from the previous prompt, and the reason; None if the cache was used as expected."""
    reproduced: bool = True
    """Whether recomputing the forecast from the log gives the same points, lifetimes and numbers."""


class CacheLedger:
    """Follows a log call by call and simulates the cache of each model, starting at the tail of the views."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._cached: CachedView = deepcopy(views.cached)
        self._changes: list[Change] = []
        self._before: Asked | None = None
        self._last: Asked | None = None

    def forgot(self, block: Hidden | Pruned | RangeSummary) -> None:
        """Add a block that hides entries; call it before the views add the block."""
        if change := forgotten(block, self._views.visible):
            self._changes.append(change)

    def called(self, entry: Entry, block: ModelCalled, prompt: PromptView, texts: tuple[str, str]) -> CacheRow:
        """Return the row of a decision; call it before the views add it. `texts` are its system text and tail."""
        made = self._made(entry, block, prompt, texts)
        cache = block.cache or made
        now = Asked(cache, block.model, texts[0], block.rendering)
        case = Case(
            now=now,
            before=self._last,
            changes=self._changes,
            alive=self._is_alive(block.model, cache),
            edited=self._edited(prompt, now),
        )
        row = CacheRow(
            expected=cache,
            recorded=block.cache is not None,
            change=why_less(case),
            reproduced=cache == made or cache.version != VERSION or block.rendering != RENDERING,
        )
        self._before, self._last, self._changes = self._last, now, []
        self._cached.add(replace(entry, block=replace(block, cache=cache)))
        return row

    def skipped(self, entry: Entry) -> None:
        """Add a call whose request is no longer complete."""
        self._cached.add(entry)
        self._last = None

    def heard(self, entry: Entry) -> None:
        """Add the outcome of a call."""
        self._cached.add(entry)

    def answered(self, block: ModelAnswered, row: CacheRow) -> CacheRow:
        """Return the call's row with the reported cache use."""
        if was_turned_away(block):
            # A rejected request leaves the provider's cache as it was.
            self._last = self._before
            return replace(row, change=row.change or Change("not_reported"))
        if not block.usage_reported:
            return replace(row, change=row.change or Change("not_reported"))
        return replace(row, reported=True, change=row.change or why_otherwise(row.expected, block.usage))

    def _made(self, entry: Entry, block: ModelCalled, prompt: PromptView, texts: tuple[str, str]) -> CacheForecast:
        recorded = block.cache or CacheForecast(at=entry.ts, system=system_hash(texts[0]))
        system_tokens = estimate(texts[0])
        asked = CacheAsked(
            model=block.model,
            calibration=self._views.reported.calibrations.get(block.model),
            system=recorded.system,
            system_tokens=system_tokens,
            total_tokens=block.estimated_tokens or prompt.tokens + system_tokens + estimate(texts[1]),
            at=recorded.at,
            last=recorded.last,
            settings=recorded.settings,
            rates=recorded.rates,
        )
        laid = prompt.laid(cache_points(self._views, recorded.settings).seqs)
        at = placed(self._cached, asked, laid.ends, prompt.end_at)
        return planned(self._cached, asked, at, prompt.end_at)

    def _is_alive(self, model: str, cache: CacheForecast) -> bool:
        """Return whether the longest prefix cached by the previous call must still be cached."""
        left = _usable(self._last.cache.points) if self._last else []
        return bool(left) and any(_is(one, left[-1]) and one.is_alive(cache.at) for one in self._cached.of(model).kept)

    def _edited(self, prompt: PromptView, now: Asked) -> Change | None:
        """Return the first change of the log that alters a prefix recorded by the previous call, if any."""
        if self._last is None or {self._last.rendering, now.rendering} != {RENDERING}:
            return None
        seq = 0
        for point in self._last.cache.points:
            end = prompt.end_at(point.blocks) if point.blocks else None
            if point.blocks and (end is None or end.prefix != point.prefix):
                return Change("edit", seq + 1)
            seq = point.seq
        return None


def was_turned_away(block: ModelAnswered) -> bool:
    """Return whether the provider rejected the request without processing any of it."""
    usage = block.usage
    return bool(block.error) and not (usage.input_tokens or usage.cache_read_tokens or usage.cache_write_tokens)


def _usable(points: Sequence[CachePoint]) -> list[CachePoint]:
    return [point for point in points if not point.small]


def _is(kept: Kept, point: CachePoint) -> bool:
    return (kept.blocks, kept.prefix) == (point.blocks, point.prefix)
