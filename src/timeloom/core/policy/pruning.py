"""Pruning: which old turns and rounds can go out of sight, and whether that is worth what it costs the cache."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from timeloom.core.blocks.caching import CacheRates
from timeloom.core.ids import TurnId
from timeloom.core.timeline import microseconds_between
from timeloom.core.view.context.provider_caches import LIFETIME_S, CachedView
from timeloom.core.view.turns import Turn
from timeloom.core.view.views import Views

CARD_TOKENS: Final = 400
"""What a turn's card is taken to have until it is made. Smaller makes cards that are thrown away; larger waits."""

ROWS_SHARE: Final = 0.15
"""What the rows of a round are taken to have of its tokens until they are made; in recorded sessions 0.1 to 0.24."""


class PruneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What stays whole, and what a prune must save."""

    keep_turns: int = 2
    """Turns before the current one that are not made into cards."""
    keep_rounds: int = 8
    """Newest rounds that stay whole. Fewer makes the model read files again; more costs more in every request."""
    min_saving_tokens: int = 2_000
    patience: float = 2.0
    """How many times what the rewrite costs must have been paid for what is old before it goes while the cache is warm.
    Smaller prunes more often and makes the model read again; larger pays longer."""


class TurnSpan(msgspec.Struct, frozen=True):
    """A turn that can become a card: its entries in runs, and the requests that were sent with it since it could."""

    turn_id: TurnId
    n: int
    runs: tuple[tuple[int, int], ...]
    requests: int

    @property
    def last_seq(self) -> int:
        """Its last entry."""
        return self.runs[-1][1]


class RoundSpan(msgspec.Struct, frozen=True):
    """A round that can become rows: its number, its turn's number and its entries."""

    n: int
    turn_n: int
    first_seq: int
    last_seq: int


class Saving(msgspec.Struct, frozen=True):
    """What a prune takes out of every further request, what must be written again, and what waiting has cost so far.

    `regret` counts the tokens that every request could have done without since they could have been pruned.
    """

    saved: int
    rewritten: int
    regret: int


def is_cold(cached: CachedView, model: str, at: str) -> bool:
    """Whether nothing of the conversation is left in that model's cache."""
    kept = cached.of(model).kept
    if kept or cached.model != model:
        return not any(one.blocks and one.is_alive(at) for one in kept)
    # Whoever says nothing of its cache is taken to keep what it was sent for as long as others do.
    return microseconds_between(cached.called_at, at) >= LIFETIME_S["5m"] * 1_000_000


def prunable_turns(views: Views, settings: PruneSettings) -> tuple[TurnSpan, ...]:
    """The turns that are old enough for a card and have none, oldest first; it costs as much as there are."""
    newest_first = iter(reversed(views.turns.turns.items()))
    kept = [turn for _, turn in islice(newest_first, settings.keep_turns + 1)]
    # The turn that is running has sent nothing with what becomes old with it.
    requests = [len(turn.rounds) for turn in kept[1:]]
    boundary = kept[-1].spans[0][0] if kept else 0
    found: list[TurnSpan] = []
    sent = 0
    for turn_id, turn in newest_first:
        runs = _runs(turn, views.forgetting.done_seq, boundary)
        if not runs:
            break
        found.append(TurnSpan(turn_id, turn.n, runs, sent))
        requests.append(len(turn.rounds))
        sent += requests.pop(0)
    return tuple(reversed(found))


def prunable_rounds(views: Views, settings: PruneSettings, after_seq: int = 0) -> tuple[RoundSpan, ...]:
    """The older rounds of the turns that get no card yet, oldest first; it costs as much as there are after that."""
    done = max(views.forgetting.done_seq, views.forgetting.rounds_seq, after_seq)
    found: list[RoundSpan] = []
    rounds = _rounds(list(islice(reversed(views.turns.turns.values()), settings.keep_turns + 1)))
    for span in islice(rounds, settings.keep_rounds, None):
        if span.first_seq <= done:
            break
        found.append(span)
    return tuple(reversed(found))


class OldRounds(msgspec.Struct):
    """The rounds that could be pruned, as sums that grow with each request, so that asking costs what is new.

    An act of forgetting begins them anew, and so does a restart: then they say less than was paid, and pruning waits.
    """

    marks: tuple[int, int] = (0, 0)
    before_tokens: int = 0
    """What stands before the first of them; it stays the same, since nothing before them is forgotten."""
    tokens: int = 0
    last_seq: int = 0
    regret: int = 0

    def follow(self, views: Views, settings: PruneSettings, tokens_between: Callable[[int, int], int]) -> None:
        """Takes in the rounds that have become old, and a request that is sent with all of them."""
        marks = (views.forgetting.done_seq, views.forgetting.rounds_seq)
        if marks != self.marks:
            self.marks = marks
            self.before_tokens = self.tokens = self.last_seq = self.regret = 0
        for one in prunable_rounds(views, settings, self.last_seq):
            if not self.last_seq:
                self.before_tokens = tokens_between(1, one.first_seq - 1)
            self.tokens += tokens_between(one.first_seq, one.last_seq)
            self.last_seq = one.last_seq
        self.regret += self._saved

    def saving(self, all_tokens: int) -> Saving:
        """What pruning them would save in a conversation of so many tokens, as far as it can be told beforehand."""
        return Saving(self._saved, max(0, all_tokens - self.before_tokens - self._saved), self.regret)

    @property
    def _saved(self) -> int:
        return int(self.tokens * (1 - ROWS_SHARE))


def guessed_saving(turns: Sequence[TurnSpan], tokens: Sequence[int], tokens_after: int) -> Saving:
    """What cards would save, as far as it can be told before they are made, from the tokens of the turns and after."""
    each = [max(0, size - CARD_TOKENS) for size in tokens]
    regret = sum(saved * turn.requests for saved, turn in zip(each, turns, strict=True))
    return Saving(sum(each), sum(tokens) - sum(each) + tokens_after, regret)


def reason_to_prune(saving: Saving, cold: bool, settings: PruneSettings, rates: CacheRates) -> str:
    """The arithmetic, where pruning is worth it; else nothing."""
    if saving.saved < settings.min_saving_tokens:
        return ""
    if cold:
        return f"the cache is cold, so nothing is written twice; every request has {saving.saved} tokens less"
    paid, price = saving.regret * rates.read, saving.rewritten * (rates.write_5m - rates.read)
    if paid <= settings.patience * price:
        return ""
    so_far = f"keeping what is old has cost {saving.regret} x {rates.read:g} = {paid:.0f}"
    rewrite = f"{saving.rewritten} x ({rates.write_5m:g} - {rates.read:g}) = {price:.0f}"
    return f"{so_far}, over {settings.patience:g} times the rewrite of {rewrite}; each request saves {saving.saved}"


def _runs(turn: Turn, done: int, boundary: int) -> tuple[tuple[int, int], ...]:
    """The turn's entries between what is done and the turns that stay; nothing where its main run is done."""
    if turn.spans[0][1] <= done:
        return ()
    return tuple((max(first, done + 1), last) for first, last in turn.spans if last < boundary)


def _rounds(newest_first: Sequence[Turn]) -> Iterator[RoundSpan]:
    for turn in newest_first:
        last = 0
        for one in reversed(turn.rounds):
            # What a turn was told long after its end is no part of its last round.
            last = last or next(end for first, end in turn.spans if first <= one.first_seq <= end)
            yield RoundSpan(one.n, turn.n, one.first_seq, last)
            last = one.first_seq - 1
