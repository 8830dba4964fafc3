"""Replaces old turns and rounds with cards when the saved tokens are worth the lost cache."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from timeloom.core.blocks import Cut, Pruned
from timeloom.core.blocks.caching import CacheRates
from timeloom.core.ids import TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.policy.pruning import (
    CARD_TOKENS,
    CachedPrompt,
    PrunableRounds,
    PruneSavings,
    PruneSettings,
    RoundSpan,
    TurnSpan,
    estimate_card_savings,
    find_cached_prompt,
    find_prunable_rounds,
    find_prunable_turns,
    read_again_share,
    reason_to_prune,
)
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.facts import CardContext, CardLimits
from timeloom.core.render.prompt import PromptView
from timeloom.core.render.renderer import Renderer
from timeloom.core.timeline import Entry
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.context.row_tokens import RowTokens
from timeloom.core.view.views import Views
from timeloom.runtime.context.read_range import read_ranges
from timeloom.runtime.session.session import Session


@dataclass(slots=True, kw_only=True)
class Pruner:
    """Prunes one conversation that uses that model."""

    session: Session
    model: str
    settings: PruneSettings
    limits: CardLimits
    attempts: int = 0
    """How often cards were made to learn whether they pay. It stays near the number of prunes, because making cards
    reads all that they replace."""
    _prunable_rounds: PrunableRounds = field(default_factory=PrunableRounds)
    _card_tokens: dict[TurnId, int] = field(default_factory=dict[TurnId, int])
    """The size of cards that were made in vain."""

    async def prune(self, view: PromptView, rates: CacheRates) -> bool:
        """Append the cuts if pruning is due; return whether it did. Call it once before each request.

        Turns are checked before the first request of a turn and when the cache is cold. Rounds are always checked, by
        running sums, so that the cost does not depend on the length of the conversation.
        """
        views = self.session.views
        cached = find_cached_prompt(
            views.cached, self.model, self.session.now(), lambda blocks: _prefix_at(view, blocks), view.tokens
        )
        self._prunable_rounds.update(views, self.settings, view.tokens_between)
        begins = (views.progress.round, views.progress.attempts) == (1, 0)
        turns = find_prunable_turns(views, self.settings) if begins or cached.is_cold else ()
        savings = (
            self._prunable_rounds.estimate_savings(cached, views.rows),
            self._turn_savings(turns, view, cached),
        )
        if cached.is_cold:
            savings = (PruneSavings(sum(one.saved for one in savings), 0, 0),) * 2
        again = read_again_share(views.rows)
        if not any(reason_to_prune(one, cached.is_cold, self.settings, rates, again) for one in savings):
            return False
        self.attempts += 1
        # Making cards reads from the store, and pending entries must not wait for that.
        await self.session.flush()
        # The provider caches everything after the first cut again, however many cuts there are: prune all at once.
        rows = await self._round_cuts(find_prunable_rounds(views, self.settings), view)
        self._prunable_rounds.tried = rows.considered
        cards = await self._turn_cuts(turns, view)
        # Cards begin earlier than rows, so they may not pay where rows alone do.
        for found in (cards, _TurnCuts()) if turns else (cards,):
            regret = savings[1].regret if found.cuts else 0
            if block := self._to_block(rows, found, _Prices(view, rates, cached, regret)):
                await self.session.append([block], views.progress.turn_id)
                return True
        # The rows are longer than estimated. The next attempt expects this size and keeps the regret.
        return False

    def _to_block(self, rows: "_RoundCuts", cards: "_TurnCuts", at: "_Prices") -> Pruned | None:
        """Return the block that prunes these rounds and turns, or None if that does not pay."""
        cuts = tuple(sorted([*cards.cuts, *rows.cuts], key=_first_seq))
        if not cuts:
            return None
        # Pinned entries stay.
        kept = (seq for seq in self.session.views.visible.pinned if any(_covers(cut, seq) for cut in cuts))
        stays = sum(at.view.tokens_between(seq, seq) for seq in kept)
        saved = cards.saved + rows.tokens.rounds - rows.tokens.rows - stays
        first = cuts[0].first_seq
        lost = at.cached.lost_tokens(first, at.view.tokens - at.view.tokens_from(first))
        regret = at.turns_regret + self._prunable_rounds.regret(rows.share)
        exact = PruneSavings(saved, max(0, lost - saved), regret)
        again = read_again_share(self.session.views.rows)
        reason = reason_to_prune(exact, at.cached.is_cold, self.settings, at.rates, again)
        if not reason:
            return None
        return Pruned(
            cuts=cuts,
            reason=reason,
            through_seq=cards.through_seq,
            round_tokens=rows.considered.rounds,
            row_tokens=rows.considered.rows,
        )

    @property
    def _renderer(self) -> Renderer:
        return renderer_for(self.session.views.turns.edition)

    def _turn_savings(self, turns: Sequence[TurnSpan], view: PromptView, cached: CachedPrompt) -> PruneSavings:
        if not turns:
            return PruneSavings(0, 0, 0)
        tokens = [sum(view.tokens_between(first, last) for first, last in turn.runs) for turn in turns]
        cards = [self._card_tokens.get(turn.turn_id, CARD_TOKENS) for turn in turns]
        first = turns[0].runs[0][0]
        lost = cached.lost_tokens(first, view.tokens - view.tokens_from(first))
        return estimate_card_savings(turns, tokens, cards, lost)

    async def _turn_cuts(self, turns: Sequence[TurnSpan], view: PromptView) -> "_TurnCuts":
        """Return the cuts of whole turns; later estimates use the size of these cards."""
        found = _TurnCuts()
        for turn in turns:
            entries, known = await read_ranges(self.session, turn.runs)
            text = self._renderer.turn_card(turn.turn_id, entries, self.session.views, known, self.limits)
            (first, last), *others = turn.runs
            found.cuts += [Cut(first, last, text), *(Cut(*run) for run in others)]
            found.through_seq = turn.last_seq
            self._card_tokens[turn.turn_id] = estimate_tokens(text)
            found.saved += sum(view.tokens_between(*run) for run in turn.runs) - estimate_tokens(text)
        return found

    async def _round_cuts(self, rounds: Sequence[RoundSpan], view: PromptView) -> "_RoundCuts":
        """Return the cuts of rounds; adjacent rounds share one card."""
        found = _RoundCuts(self.limits, self._renderer, self.session.views)
        for one in rounds:
            entries, known = await read_ranges(self.session, [(one.first_seq, one.last_seq)])
            found.add(one, entries, known, view.tokens_between(one.first_seq, one.last_seq))
        found.close()
        return found


@dataclass(frozen=True, slots=True)
class _Prices:
    """What decides whether cuts pay: the prompt, the rates, the provider's cache, and the regret of the turns."""

    view: PromptView
    rates: CacheRates
    cached: CachedPrompt
    turns_regret: int


@dataclass(slots=True)
class _TurnCuts:
    """The cuts of whole turns, and the tokens that they save together."""

    cuts: list[Cut] = field(default_factory=list[Cut])
    saved: int = 0
    through_seq: int = 0


class _RoundCuts:
    """The cuts of rounds, and the tokens that they replace and show."""

    def __init__(self, limits: CardLimits, renderer: Renderer, views: Views) -> None:
        self.cuts: list[Cut] = []
        self.tokens = RowTokens()
        self.considered = RowTokens()
        """The same with the rounds that stay visible, because they are hardly longer than their rows."""
        self._limits, self._renderer, self._views = limits, renderer, views
        self._rounds: list[RoundSpan] = []
        self._entries: list[Entry] = []
        self._payloads: dict[BlobRef, bytes] = {}
        self._open_plans: frozenset[int] = frozenset()
        self._rows = 0

    @property
    def share(self) -> float:
        """The rows as a share of the rounds; rounds that stay visible save nothing."""
        return self.considered.rows / max(1, self.considered.rounds)

    def add(self, one: RoundSpan, entries: Sequence[Entry], known: CardContext, tokens: int) -> None:
        """Add the next round to the open card, or begin another card with it."""
        rows = self._renderer.card_rows(entries, self._views, known, self._limits)
        size = estimate_tokens("\n".join(rows))
        stays = (tokens - size) * 2 <= size
        self.considered.rounds += tokens
        # Messages come first in a card, so a round with messages begins one.
        if stays or not self._continues(one, len(rows)) or self._renderer.has_messages(entries, self._views, known):
            self.close()
        if stays:
            self.considered.rows += tokens
            return
        self.tokens.rounds += tokens
        self._rounds.append(one)
        self._entries += entries
        self._payloads.update(known.payloads)
        self._open_plans |= known.open_plans
        self._rows += len(rows)

    def close(self) -> None:
        """End the open card, if there is one."""
        if self._rounds:
            first, last = self._rounds[0], self._rounds[-1]
            context = CardContext(dict(self._payloads), self._open_plans)
            text = self._renderer.rounds_card(
                (first.n, last.n), first.turn_n, self._entries, self._views, context, self._limits
            )
            self.cuts.append(Cut(first.first_seq, last.last_seq, text))
            size = estimate_tokens(text)
            self.tokens.rows += size
            self.considered.rows += size
        self._rounds.clear()
        self._entries.clear()
        self._payloads.clear()
        self._rows = 0

    def _continues(self, one: RoundSpan, rows: int) -> bool:
        if not self._rounds:
            return True
        last = self._rounds[-1]
        adjacent = last.turn_n == one.turn_n and last.last_seq + 1 == one.first_seq
        return adjacent and self._rows + rows <= self._limits.rows


def _prefix_at(view: PromptView, blocks: int) -> str:
    end = view.end_at(blocks)
    return end.prefix if end else ""


def _covers(cut: Cut, seq: int) -> bool:
    return cut.first_seq <= seq <= cut.last_seq


def _first_seq(cut: Cut) -> int:
    return cut.first_seq
