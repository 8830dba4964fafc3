"""Decides when a request is too large for its model, and up to which entry the history is summarized."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import msgspec

from timeloom.core.view.views import Views

FIRST_SEQ: Final = 2
"""The first entry of every range summary. It follows the header, so a new summary covers all older ones."""

RETRY_SHARE: Final = 0.5
"""The share of the cacheable part that may remain after a provider rejected the request as too long. A larger value
needs more of the few retries; a smaller one forgets more than necessary."""

MIN_KEPT_TOKENS: Final = 8_000
"""Minimum number of recent tokens that stay unsummarized, even beyond `keep_share`, so that a small window keeps a few
rounds."""

READ_LINE_TOKENS: Final = 120
"""Estimated tokens of the line that names the rest of a shortened entry."""

KEPT_ROUNDS: Final = 2
"""How many of the newest rounds a requested compaction keeps if it names no number. Fewer lose the results that the
model works with; more leave short conversations as they are."""

EXACT_CHECK_MARGIN_TOKENS: Final = 1_000
"""Distance to the limit at which the exact size is computed; the tail may have grown this much since the last one."""


class CompactSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When history is summarized, how much of it stays, and how long a summary may be."""

    compact_at: float = 0.85
    """The share of the window that request and reply may fill together. A larger value leaves no margin for token
    estimates that are too low."""
    keep_share: float = 0.1
    """The share of the window that stays unsummarized. A smaller value forgets more. A larger value is part of every
    later request and brings the next compaction sooner."""
    summary_tokens: int = 6_000
    """Maximum number of tokens of a summary; it never exceeds a tenth of the window."""
    prose_tokens: int = 1_500
    """Maximum number of tokens of the part that a model writes."""


class RequestSize(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated tokens of the next request; the window is converted to the same estimate by calibration."""

    cacheable: int
    """The part that pruning and compaction can shorten."""
    fixed: int
    """System text and tail."""
    reply: int
    """The maximum length of the reply."""
    window: int

    @property
    def prompt(self) -> int:
        """The whole request."""
        return self.cacheable + self.fixed

    @property
    def total(self) -> int:
        """The request and its reply."""
        return self.prompt + self.reply


def max_request_tokens(size: RequestSize, settings: CompactSettings, *, smaller: bool = False) -> int:
    """Return the maximum number of tokens that request and reply may have together.

    With `smaller`, the provider rejected the last request as too long, so the maximum is below its size.
    """
    most = int(size.window * settings.compact_at)
    return min(most, size.reply + size.fixed + int(size.cacheable * RETRY_SHARE)) if smaller else most


def needs_exact_size(estimated: RequestSize, settings: CompactSettings, *, smaller: bool = False) -> bool:
    """Return whether the estimate is too close to the limit to decide whether the request fits."""
    return smaller or estimated.total + EXACT_CHECK_MARGIN_TOKENS > max_request_tokens(estimated, settings)


def max_summary_tokens(size: RequestSize, limit: int, settings: CompactSettings) -> int:
    """Return the maximum number of tokens of a summary."""
    return max(0, min(settings.summary_tokens, size.window // 10, (limit - size.fixed - size.reply) * 2 // 3))


def max_kept_tokens(size: RequestSize, limit: int, settings: CompactSettings) -> int:
    """Return how many tokens of recent history stay unsummarized, so that they fit behind a summary.

    Half of the available space stays free, however small the window is. Otherwise the next round would compact again.
    """
    available = limit - size.fixed - size.reply - max_summary_tokens(size, limit, settings)
    return max(0, min(max(int(size.window * settings.keep_share), MIN_KEPT_TOKENS), available // 2))


def max_entry_tokens(sizes: Sequence[int], excess: int, least: int) -> int:
    """Return how many tokens each of these entries may keep, so that together they lose `excess` tokens.

    Smaller entries stay whole, larger ones are cut to the same size, and none below `least`.
    """
    low, high = least, max([least, *sizes])
    while low < high:
        middle = (low + high + 1) // 2
        if sum(max(0, size - middle) for size in sizes) >= excess + READ_LINE_TOKENS * len(sizes):
            low = middle
        else:
            high = middle - 1
    return low


def find_best_cut(views: Views, keep: int, tokens_from: Callable[[int], int]) -> int:
    """Return the last entry to summarize, or 0 if no cut is legal.

    It is the first legal cut that leaves at most `keep` tokens: between two turns if there is one, otherwise between
    two rounds of the current turn. If even the last cut leaves more, it is the last cut.
    """
    cuts = _legal_cuts(views)
    if not cuts:
        return 0
    begins = _turn_starts(views)
    turns = [cut for cut in cuts if cut + 1 in begins]
    return _find_first_fitting(turns, keep, tokens_from) or _find_first_fitting(cuts, keep, tokens_from) or cuts[-1]


def find_requested_cut(views: Views, keep: int, max_kept: int, tokens_from: Callable[[int], int]) -> int:
    """Return the last entry that a requested compaction summarizes, or 0 if there is none.

    The newest `keep` rounds stay. If `keep` is 0, `KEPT_ROUNDS` stay, or fewer if they exceed `max_kept` tokens.
    """
    cuts = _legal_cuts(views)
    before = bisect_left(cuts, _first_kept_seq(views, keep or KEPT_ROUNDS))
    cut = cuts[before - 1] if before else 0
    return cut if keep or tokens_from(cut + 1) <= max_kept else find_best_cut(views, max_kept, tokens_from)


def find_last_cut(views: Views) -> int:
    """Return the last legal cut after the newest summary, or 0 if there is none."""
    cuts = _legal_cuts(views)
    return cuts[-1] if cuts else 0


def _legal_cuts(views: Views) -> list[int]:
    """Return the legal cuts after the newest summary that cover only entries which the model has seen."""
    cuts, unseen = views.cuts.legal_after(max(FIRST_SEQ, views.forgetting.summed_seq)), views.forgetting.unseen_seq
    return cuts[: bisect_left(cuts, unseen)] if unseen else cuts


def _first_kept_seq(views: Views, rounds: int) -> int:
    """Return the first entry of the newest rounds, without one that has just begun; 0 if there are not more."""
    has_begun = views.progress.running and views.progress.asked == "no"
    newest = (one.first_seq for turn in reversed(views.turns.turns.values()) for one in reversed(turn.rounds))
    return next(islice(newest, rounds - 1 + has_begun, None), 0)


def _turn_starts(views: Views) -> set[int]:
    """Return the first entries of all turns that are not summarized."""
    found: set[int] = set()
    for turn in reversed(views.turns.turns.values()):
        if turn.spans[0][0] <= views.forgetting.summed_seq:
            break
        found.add(turn.spans[0][0])
    return found


def _find_first_fitting(cuts: Sequence[int], keep: int, tokens_from: Callable[[int], int]) -> int:
    low, high = 0, len(cuts)
    while low < high:
        middle = (low + high) // 2
        if tokens_from(cuts[middle] + 1) <= keep:
            high = middle
        else:
            low = middle + 1
    return cuts[low] if low < len(cuts) else 0
