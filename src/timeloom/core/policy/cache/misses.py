"""Explains why a request read less from the cache than expected."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, assert_never

import msgspec

from timeloom.core.blocks import Hidden, Pruned, RangeSummary, Usage
from timeloom.core.blocks.caching import CacheForecast, CachePoint
from timeloom.core.view.context.visible import VisibleView

MissReason = Literal[
    "edit",
    "hide",
    "prune",
    "compaction",
    "system",
    "catalogue",
    "rendering",
    "model",
    "expired",
    "too_small",
    "look_back",
    "evicted",
    "more_kept",
    "not_reported",
    "no_outcome",
    "estimate",
]

REASON_TEXTS: Final[Mapping[MissReason, str]] = {
    "edit": "the log was changed, or is rendered otherwise than it was sent",
    "hide": "something was hidden",
    "prune": "turns were pruned",
    "compaction": "turns were summed up",
    "system": "the system text changed",
    "catalogue": "the catalogue of tools and skills changed",
    "rendering": "another version of timeloom rendered the prompt",
    "model": "another model was asked before",
    "expired": "its lifetime was over",
    "too_small": "the prefix is smaller than the provider keeps",
    "look_back": "it was further back than the provider looks",
    "evicted": "the provider did not have it, though its lifetime was not over",
    "more_kept": "the provider had more than we knew of: kept longer, or sent by another conversation",
    "not_reported": "the provider did not say what it read from a cache",
    "no_outcome": "the log does not say how the call ended",
    "estimate": "our count of the tokens was off",
}

TOLERANCE: Final = 0.01
"""Differences up to this share of the prompt are ignored."""

TOLERANCE_TOKENS: Final = 64
"""Differences up to this many tokens are ignored, because providers add tokens around a request."""

CATALOGUE_TITLE: Final = "\n\n# Tools\n\n"
BUNDLE_TITLE: Final = "\n\n# Instructions of this assistant\n\n"


class PromptChange(msgspec.Struct, frozen=True):
    """The reason why a prompt differs from the previous one, and the first entry that is rendered differently."""

    reason: MissReason
    seq: int = 0
    path: str = ""

    @property
    def text(self) -> str:
        """The reason as a sentence."""
        return REASON_TEXTS[self.reason]


class RequestDetails(msgspec.Struct, frozen=True):
    """A model request: its cache forecast, the model, its system text, and the rendering version."""

    cache: CacheForecast
    model: str
    system: str
    rendering: int


class RequestPair(msgspec.Struct, frozen=True, kw_only=True):
    """A request, the request before it, and the events between them."""

    now: RequestDetails
    before: RequestDetails | None = None
    changes: Sequence[PromptChange] = ()
    """Entries that were hidden, pruned or summarized between the two requests."""
    alive: bool = True
    """Whether the lifetime of the previously written prefix was still running."""
    edited: PromptChange | None = None
    """The first entry whose rendering differs from the sent text although nothing was forgotten."""


def explain_smaller_read(case: RequestPair) -> PromptChange | None:
    """Return why the request is expected to read less than the previous one left in the cache, if it is."""
    before, now = case.before, case.now
    last = _last_point(before.cache) if before else None
    if before is None or (last and _is_same_prefix(now.cache.hit, last)):
        return None
    if before.model != now.model:
        return PromptChange("model")
    if before.system != now.system:
        return PromptChange(_system_reason(before.system, now.system))
    if before.rendering != now.rendering:
        return PromptChange("rendering")
    return _explain_lost_prefix(case, last)


def explain_deviation(expected: CacheForecast, usage: Usage) -> PromptChange | None:
    """Return why the reported usage differs from the forecast, if it does."""
    if not (usage.cache_read_tokens or usage.cache_write_tokens) and (expected.read_tokens or expected.written_tokens):
        return PromptChange("not_reported")
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    tolerance = max(TOLERANCE_TOKENS, TOLERANCE * prompt)
    over = usage.cache_read_tokens - expected.read_tokens
    if abs(over) > tolerance and _is_estimate(expected, usage):
        return PromptChange("estimate")
    if over > tolerance:
        return PromptChange("more_kept")
    if over < -tolerance:
        return PromptChange("evicted")
    others = (usage.input_tokens - expected.uncached_tokens, usage.cache_write_tokens - expected.written_tokens)
    return PromptChange("estimate") if max(map(abs, others)) > tolerance else None


def find_forgotten_change(block: Hidden | Pruned | RangeSummary, visible: VisibleView) -> PromptChange | None:
    """Return the change that a forgetting block makes to the visible entries, or None if it makes none."""
    pinned = () if isinstance(block, Hidden) else visible.pinned
    match block:
        case Hidden(target=path):
            reason, seqs = "hide", visible.at_path.get(path, ())
            if path in visible.summaries:
                seqs = (visible.summaries[path][1],)
            elif path in visible.at_alias:
                seqs = (visible.at_alias[path],)
        case Pruned(cuts=cuts):
            reason, seqs = "prune", (_first_visible_between(visible, cut.first_seq, cut.last_seq) for cut in cuts)
        case RangeSummary(first_seq=first, last_seq=last) if last:
            reason, seqs = "compaction", (_first_visible_between(visible, first, last),)
        case RangeSummary(covered_turn_ids=turns):
            reason, seqs = "compaction", (seq for turn in turns for seq in visible.seqs_in_turn(turn))
        case _:
            assert_never(block)
    first_seq = min((seq for seq in seqs if seq in visible.shown and seq not in pinned), default=0)
    return PromptChange(reason, first_seq) if first_seq else None


def _first_visible_between(visible: VisibleView, first: int, last: int) -> int:
    return next((seq for seq in visible.seqs_between(first, last) if seq not in visible.pinned), 0)


def _explain_lost_prefix(case: RequestPair, last: CachePoint | None) -> PromptChange | None:
    if last is None:
        return PromptChange("too_small") if case.now.cache.points else None
    forgot = [change for change in case.changes if change.seq <= last.seq]
    if forgot:
        return min(forgot, key=lambda change: change.seq)
    if not case.alive:
        return PromptChange("expired")
    return case.edited or PromptChange("look_back")


def _last_point(cache: CacheForecast) -> CachePoint | None:
    return next((point for point in reversed(cache.points) if not point.small), None)


def _is_same_prefix(hit: CachePoint | None, last: CachePoint) -> bool:
    return hit is not None and (hit.blocks, hit.prefix) == (last.blocks, last.prefix)


def _is_estimate(expected: CacheForecast, usage: Usage) -> bool:
    """Whether the request read the expected share of the prompt, so that only the token estimate was wrong."""
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    wanted = expected.read_tokens / max(1, expected.prompt_tokens)
    return abs(usage.cache_read_tokens / max(1, prompt) - wanted) <= TOLERANCE


def _system_reason(before: str, now: str) -> MissReason:
    """Return `catalogue` if only the list of tools and skills differs, otherwise `system`."""
    return "catalogue" if _around_catalogue(before) == _around_catalogue(now) else "system"


def _around_catalogue(system: str) -> tuple[str, str]:
    head, _, rest = system.partition(CATALOGUE_TITLE)
    return head, rest.partition(BUNDLE_TITLE)[2]
