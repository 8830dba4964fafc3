"""Decides which old turns and rounds are pruned, and whether the saving is worth the cache rewrite."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from timeloom.core.blocks.caching import CacheRates
from timeloom.core.ids import TurnId
from timeloom.core.timeline import microseconds_between
from timeloom.core.view.context.provider_caches import LIFETIME_S, CachedPrefix, ProviderCachesView
from timeloom.core.view.context.row_tokens import RowTokens
from timeloom.core.view.turns import Turn
from timeloom.core.view.views import Views

CARD_TOKENS: Final = 400
"""Estimated size of a turn's card before it is rendered. A smaller value renders cards that are discarded; a larger one
delays pruning."""

ROWS_PRIOR: Final = (1_000, 0.12)
"""Expected size of rows as a share of their rounds before a conversation has pruned any: its weight in tokens, and the
share. Sessions have 0.03 (large calls) to 0.2 (calls of 50 tokens)."""

MARGIN: Final = 1.25
"""Factor on the expected size of rows. Less makes cards that turn out not to pay, which reads all that they replace;
more waits a round or two longer than it pays."""

READ_AGAIN_PRIOR: Final = (20_000, 0.06)
"""Expected share of pruned tokens that the model reads again: its weight in tokens, and the share. More waits longer;
less prunes files shortly before they are edited. Played sessions cost 6% less to 4% more than with a share of 0."""

STAYS_REQUESTS: Final = 8
"""Number of requests in which content that was read again stays."""


class PruneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The turns and rounds that are exempt from pruning, and the minimum saving."""

    keep_turns: int = 2
    """How many turns before the current one are never replaced by cards."""
    keep_rounds: int = 5
    """How many of the newest rounds stay complete. Fewer make the model read files again; more cost more in every
    request."""
    min_saving_tokens: int = 2_000
    patience: float = 1.0
    """While the cache is warm, old content is pruned once keeping it has cost this many times the rewrite. A smaller
    value prunes more often and makes the model read again; a larger one pays longer."""


class TurnSpan(msgspec.Struct, frozen=True):
    """A prunable turn: its runs of entries, and the number of requests that included it since it became prunable."""

    turn_id: TurnId
    n: int
    runs: tuple[tuple[int, int], ...]
    requests: int

    @property
    def last_seq(self) -> int:
        """The last entry of the turn."""
        return self.runs[-1][1]


class RoundSpan(msgspec.Struct, frozen=True):
    """A prunable round: its number, the number of its turn, and its range of entries."""

    n: int
    turn_n: int
    first_seq: int
    last_seq: int


class PruneSavings(msgspec.Struct, frozen=True):
    """The tokens that a prune removes from every later request, the tokens to rewrite, and the cost of waiting.

    `regret` counts the tokens that requests sent needlessly since they became prunable.
    """

    saved: int
    rewritten: int
    regret: int


class CachedPrompt(msgspec.Struct, frozen=True):
    """The prefixes of the prompt that its provider caches, longest last; None if the provider does not report them."""

    prefixes: tuple[CachedPrefix, ...] | None
    all_tokens: int
    """Tokens of the conversation, which count as cached if nothing is reported."""

    @property
    def is_cold(self) -> bool:
        """Whether no part of the conversation is cached."""
        return self.prefixes is not None and not any(one.blocks for one in self.prefixes)

    def lost_tokens(self, first_seq: int, tokens_before: int) -> int:
        """Return the cached tokens that a cut from `first_seq` on makes useless; `tokens_before` precede the cut.

        The provider finds only prefixes that end at a cache point, so more may be lost than follows the cut.
        """
        if self.prefixes is None:
            return self.all_tokens - tokens_before
        longest = max((one.tokens for one in self.prefixes), default=0)
        return longest - max((one.tokens for one in self.prefixes if one.seq < first_seq), default=0)


def find_cached_prompt(
    cached: ProviderCachesView, model: str, at: str, prefix_at: Callable[[int], str], all_tokens: int
) -> CachedPrompt:
    """Return what the model's provider caches of the prompt whose prefix of n blocks has the hash `prefix_at(n)`."""
    kept = cached.for_model(model).kept
    if kept or cached.model != model:
        alive = (one for one in kept if one.is_alive(at))
        return CachedPrompt(tuple(one for one in alive if not one.blocks or prefix_at(one.blocks) == one.prefix), 0)
    # A provider that reports nothing about its cache is assumed to keep prompts for the usual five minutes.
    cold = microseconds_between(cached.called_at, at) >= LIFETIME_S["5m"] * 1_000_000
    return CachedPrompt(() if cold else None, all_tokens)


def find_prunable_turns(views: Views, settings: PruneSettings) -> tuple[TurnSpan, ...]:
    """Return the turns that can be replaced by cards, oldest first; the cost is linear in their number."""
    newest_first = iter(reversed(views.turns.turns.items()))
    kept = [turn for _, turn in islice(newest_first, settings.keep_turns + 1)]
    # The current turn has sent no request that includes the turns it makes prunable.
    requests = [len(turn.rounds) for turn in kept[1:]]
    boundary = min(kept[-1].spans[0][0] if kept else 0, _first_unseen(views))
    found: list[TurnSpan] = []
    sent = 0
    for turn_id, turn in newest_first:
        runs = _unpruned_runs(turn, views.forgetting.done_seq, boundary)
        if not runs:
            break
        found.append(TurnSpan(turn_id, turn.n, runs, sent))
        requests.append(len(turn.rounds))
        sent += requests.pop(0)
    return tuple(reversed(found))


def find_prunable_rounds(views: Views, settings: PruneSettings, after_seq: int = 0) -> tuple[RoundSpan, ...]:
    """Return the old rounds of turns that have no card yet, oldest first.

    The cost is linear in the number of rounds after `after_seq`.
    """
    done = max(views.forgetting.done_seq, views.forgetting.rounds_seq, after_seq)
    found: list[RoundSpan] = []
    rounds = _round_spans(list(islice(reversed(views.turns.turns.values()), settings.keep_turns + 1)))
    unseen = _first_unseen(views)
    for span in islice(rounds, settings.keep_rounds, None):
        if span.first_seq <= done:
            break
        if span.last_seq < unseen:
            found.append(span)
    return tuple(reversed(found))


class PrunableRounds(msgspec.Struct):
    """Running sums over the prunable rounds, so that an update costs only the new rounds.

    Pruning and compaction reset the sums, and so does a restart. The sums then underestimate the cost so far, which
    delays pruning.
    """

    marks: tuple[int, int] = (0, 0)
    first_seq: int = 0
    before_tokens: int = 0
    """Tokens before the first of these rounds. The number is constant, because nothing before them is pruned."""
    tokens: int = 0
    last_seq: int = 0
    sent_tokens: int = 0
    """Tokens of these rounds in all requests since they became prunable."""
    tried: RowTokens = msgspec.field(default_factory=RowTokens)
    """The rows of the last attempt that did not pay. The next attempt knows their size, and waits until it pays."""

    def update(self, views: Views, settings: PruneSettings, tokens_between: Callable[[int, int], int]) -> None:
        """Add the rounds that have become prunable, and count one request that includes all of them."""
        marks = (views.forgetting.done_seq, views.forgetting.rounds_seq)
        if marks != self.marks:
            self.marks, self.tried = marks, RowTokens()
            self.first_seq = self.before_tokens = self.tokens = self.last_seq = self.sent_tokens = 0
        for one in find_prunable_rounds(views, settings, self.last_seq):
            if not self.last_seq:
                self.first_seq = one.first_seq
                self.before_tokens = tokens_between(1, one.first_seq - 1)
            self.tokens += tokens_between(one.first_seq, one.last_seq)
            self.last_seq = one.last_seq
        self.sent_tokens += self.tokens

    def estimate_savings(self, cached: CachedPrompt, recorded: RowTokens) -> PruneSavings:
        """Return the estimated savings of pruning these rounds; `recorded` are the rows of earlier prunes."""
        share = MARGIN * (self.tried.rows / self.tried.rounds if self.tried.rounds else rows_share(recorded))
        saved = max(0, int(self.tokens * (1 - share)))
        lost = cached.lost_tokens(self.first_seq, self.before_tokens) if self.tokens else 0
        return PruneSavings(saved, max(0, lost - saved), self.regret(share))

    def regret(self, share: float) -> int:
        """Return the tokens that requests have sent needlessly if rows take that share of the rounds."""
        return max(0, int(self.sent_tokens * (1 - share)))


def rows_share(known: RowTokens) -> float:
    """Return the expected size of rows as a share of their rounds, from rows that were made before."""
    weight, share = ROWS_PRIOR
    return (weight * share + known.rows) / (weight + known.rounds)


def read_again_share(known: RowTokens) -> float:
    """Return the expected share of pruned tokens that are read again, from what was pruned and read before."""
    weight, share = READ_AGAIN_PRIOR
    return min(1.0, (weight * share + known.read_again) / (weight + known.rounds))


def estimate_card_savings(
    turns: Sequence[TurnSpan], tokens: Sequence[int], cards: Sequence[int], lost_tokens: int
) -> PruneSavings:
    """Return the estimated savings of replacing turns by cards, from the tokens of both.

    `lost_tokens` are the cached tokens that the cards make useless.
    """
    each = [max(0, size - card) for size, card in zip(tokens, cards, strict=True)]
    regret = sum(saved * turn.requests for saved, turn in zip(each, turns, strict=True))
    return PruneSavings(sum(each), max(0, lost_tokens - sum(each)), regret)


def reason_to_prune(
    saving: PruneSavings, cold: bool, settings: PruneSettings, rates: CacheRates, again_share: float = 0.0
) -> str:
    """Return the calculation that justifies pruning, or an empty string if pruning does not pay.

    `again_share` of the saved tokens are expected to be read again, which writes them a second time.
    """
    if saving.saved < settings.min_saving_tokens:
        return ""
    if cold:
        return f"the cache is cold, so nothing is written twice; every request has {saving.saved} tokens less"
    again = int(saving.saved * again_share)
    again_rate = rates.write_5m + STAYS_REQUESTS * rates.read
    paid, price = saving.regret * rates.read, saving.rewritten * (rates.write_5m - rates.read) + again * again_rate
    if paid <= settings.patience * price:
        return ""
    so_far = f"keeping what is old has cost {saving.regret} x {rates.read:g} = {paid:.0f}"
    reads = f" + reading again {again} x {again_rate:g}" if again else ""
    rewrite = f"{saving.rewritten} x ({rates.write_5m:g} - {rates.read:g}){reads} = {price:.0f}"
    return f"{so_far}, over {settings.patience:g} times the rewrite of {rewrite}; each request saves {saving.saved}"


def _first_unseen(views: Views) -> int:
    """Return the first entry that the model has not seen, which is never pruned; else the number after the last."""
    return views.forgetting.unseen_seq or views.tail + 1


def _unpruned_runs(turn: Turn, done: int, boundary: int) -> tuple[tuple[int, int], ...]:
    """Return the turn's unpruned runs before `boundary`; empty if its main run is already pruned."""
    if turn.spans[0][1] <= done:
        return ()
    return tuple((max(first, done + 1), last) for first, last in turn.spans if last < boundary)


def _round_spans(newest_first: Sequence[Turn]) -> Iterator[RoundSpan]:
    for turn in newest_first:
        last = 0
        for one in reversed(turn.rounds):
            # Entries appended long after the turn's end are not part of its last round.
            last = last or next(end for first, end in turn.spans if first <= one.first_seq <= end)
            yield RoundSpan(one.n, turn.n, one.first_seq, last)
            last = one.first_seq - 1
