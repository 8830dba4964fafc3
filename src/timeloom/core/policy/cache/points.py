"""Places cache points by counting turns and rounds."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from timeloom.core.blocks.caching import CacheSettings
from timeloom.core.view.turns import Round, TurnsView
from timeloom.core.view.views import Views

DEFAULT_SETTINGS: Final = CacheSettings()

MAX_SCANNED_TURNS: Final = 200
"""Maximum number of turns that are searched for rounds. Every round runs this search, and old logs have turns without
rounds."""


class CachePoints(msgspec.Struct, frozen=True):
    """The last entries of the prefixes to cache; 0 means that there is no such point."""

    settled: int = 0
    pre_tail: int = 0
    tail: int = 0

    @property
    def seqs(self) -> tuple[int, ...]:
        """The distinct points in order: at most three, in addition to the point on the system text."""
        return tuple(sorted({self.settled, self.pre_tail, self.tail} - {0}))


def find_cache_points(views: Views, settings: CacheSettings = DEFAULT_SETTINGS) -> CachePoints:
    """Return the end of what stays at the next prune, the end of all but the last few rounds, and the end of the log.

    The next prune begins after the last pruned round, so the prefix up to there survives it, and is renewed by each
    request. Before the first prune, the end of the previous turns takes its place.
    """
    turn = views.turns.turns.get(views.turns.newest)
    before = turn.spans[0][0] - 1 if turn and turn.spans else 0
    # A conversation's header alone is not worth caching.
    prev_turn = before if len(views.turns.turns) > 1 else 0
    # A damaged log may name entries that it does not have.
    pruned = min(views.tail, max(views.forgetting.done_seq, views.forgetting.rounds_seq))
    return CachePoints(pruned or prev_turn, editable_after(views, settings), views.tail)


def editable_after(views: Views, settings: CacheSettings = DEFAULT_SETTINGS) -> int:
    """Return the pre-tail point; entries after it may still be hidden. 0 while there are too few rounds."""
    wanted = max(settings.min_rounds, settings.offset_rounds + 1)
    last = list(islice(_newest_rounds(views.turns), wanted))
    if len(last) < wanted:
        return 0
    # The point lies directly before the first of the last `offset_rounds` rounds.
    return last[settings.offset_rounds - 1].first_seq - 1 if settings.offset_rounds else views.tail


def can_hide(
    first_seq: int, size_tokens: int, tokens_to_end: int, editable: int, settings: CacheSettings = DEFAULT_SETTINGS
) -> bool:
    """Whether a block may be hidden: it lies after the pre-tail point and within the editable tail.

    `tokens_to_end` is counted from the start of the block. A block larger than the whole tail only needs to lie after
    the point, because hiding it saves most.
    """
    if first_seq <= editable:
        return False
    return size_tokens > settings.editable_tail_tokens or tokens_to_end <= settings.editable_tail_tokens


def _newest_rounds(turns: TurnsView) -> Iterable[Round]:
    for turn_id in islice(reversed(turns.turns), MAX_SCANNED_TURNS):
        yield from reversed(turns.turns[turn_id].rounds)
