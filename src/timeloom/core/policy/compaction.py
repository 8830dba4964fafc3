"""Compaction: whether a request leaves its model too little room, and up to where the conversation is summed up."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from timeloom.core.view.views import Views

FIRST_SEQ: Final = 2
"""Where every summary of a range begins: after the header, so that an older summary lies inside the new one."""

SMALLER: Final = 0.5
"""What may be left of a conversation whose request was too long for its provider. Larger needs more tries, and there
are few; smaller forgets more than it must."""

LEAST_KEPT_TOKENS: Final = 8_000
"""What stays as it is even where that is more than its share, so that a small window keeps a few rounds."""


class CompactSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When the conversation is summed up, how much stays as it is, and how long a summary is."""

    compact_at: float = 0.85
    """The share of the window that request and reply may have together. More leaves no room for miscounted tokens."""
    keep_share: float = 0.1
    """The share of the window that stays as it is. Less forgets more; more stands in every request after it, and brings
    the next compaction sooner."""
    summary_tokens: int = 6_000
    """Most tokens of a summary, and never more than a tenth of the window."""
    prose_tokens: int = 1_500
    """Most tokens of the part that a model writes."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The next request by our own count, and the window in the same count: the model's, by what its calls taught."""

    cacheable: int
    """The part that forgetting can make smaller."""
    fixed: int
    """System text and tail."""
    reply: int
    """The most that the model may answer."""
    window: int

    @property
    def prompt(self) -> int:
        """The whole request."""
        return self.cacheable + self.fixed

    @property
    def total(self) -> int:
        """The request and its reply."""
        return self.prompt + self.reply


def most_tokens(size: Size, settings: CompactSettings, *, smaller: bool = False) -> int:
    """What request and reply may have together; less than they have where the provider found them too long."""
    most = int(size.window * settings.compact_at)
    return min(most, size.reply + size.fixed + int(size.cacheable * SMALLER)) if smaller else most


def summary_tokens(size: Size, most: int, settings: CompactSettings) -> int:
    """How long a summary may be in that window."""
    return max(0, min(settings.summary_tokens, size.window // 10, (most - size.fixed - size.reply) * 2 // 3))


def kept_tokens(size: Size, most: int, settings: CompactSettings) -> int:
    """How much of the conversation stays as it is, so that all of it fits with a summary in front.

    Half of the room stays free, however small the window is: else the next round would have to compact again.
    """
    room = most - size.fixed - size.reply - summary_tokens(size, most, settings)
    return max(0, min(max(int(size.window * settings.keep_share), LEAST_KEPT_TOKENS), room // 2))


def best_cut(views: Views, keep: int, tokens_from: Callable[[int], int]) -> int:
    """The entry after which the conversation stays as it is; 0 where no cut is legal.

    It is the first legal cut that leaves no more than `keep` tokens: between two turns if there is one, else between
    two rounds of the current one. Where even the last leaves more, it is the last.
    """
    cuts = _cuts(views)
    if not cuts:
        return 0
    begins = _turns_begin(views)
    turns = [cut for cut in cuts if cut + 1 in begins]
    return _first_that_fits(turns, keep, tokens_from) or _first_that_fits(cuts, keep, tokens_from) or cuts[-1]


def last_cut(views: Views) -> int:
    """The last legal cut after what is summed up; 0 where there is none."""
    cuts = _cuts(views)
    return cuts[-1] if cuts else 0


def _cuts(views: Views) -> list[int]:
    return views.cuts.after(max(FIRST_SEQ, views.forgetting.summed_seq))


def _turns_begin(views: Views) -> set[int]:
    """Where turns begin that are not summed up."""
    found: set[int] = set()
    for turn in reversed(views.turns.turns.values()):
        if turn.spans[0][0] <= views.forgetting.summed_seq:
            break
        found.add(turn.spans[0][0])
    return found


def _first_that_fits(cuts: Sequence[int], keep: int, tokens_from: Callable[[int], int]) -> int:
    low, high = 0, len(cuts)
    while low < high:
        middle = (low + high) // 2
        if tokens_from(cuts[middle] + 1) <= keep:
            high = middle
        else:
            low = middle + 1
    return cuts[low] if low < len(cuts) else 0
