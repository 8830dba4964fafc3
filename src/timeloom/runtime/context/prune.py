"""Replaces old turns and rounds with cards when the saved tokens are worth the lost cache."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from timeloom.core.blocks import Cut, Pruned
from timeloom.core.blocks.caching import CacheRates
from timeloom.core.policy.pruning import (
    PrunableRounds,
    PruneSavings,
    PruneSettings,
    RoundSpan,
    TurnSpan,
    estimate_card_savings,
    find_prunable_rounds,
    find_prunable_turns,
    is_cache_cold,
    reason_to_prune,
)
from timeloom.core.render.entries.cards import CardLimits, round_card, turn_card
from timeloom.core.render.prompt import PromptView
from timeloom.core.tokens import estimate_tokens
from timeloom.runtime.context.read_range import read_ranges
from timeloom.runtime.session.session import Session


@dataclass(slots=True, kw_only=True)
class Pruner:
    """Prunes one conversation that uses that model."""

    session: Session
    model: str
    settings: PruneSettings
    limits: CardLimits
    _prunable_rounds: PrunableRounds = field(default_factory=PrunableRounds)

    async def prune(self, view: PromptView, rates: CacheRates) -> bool:
        """Append the cuts if pruning is due; return whether it did. Call it once before each request.

        Turns are checked before the first request of a turn and when the cache is cold. Rounds are always checked, by
        running sums, so that the cost does not depend on the length of the conversation.
        """
        views = self.session.views
        cold = is_cache_cold(views.cached, self.model, self.session.now())
        self._prunable_rounds.update(views, self.settings, view.tokens_between)
        begins = (views.progress.round, views.progress.attempts) == (1, 0)
        turns = find_prunable_turns(views, self.settings) if begins or cold else ()
        savings = self._prunable_rounds.estimate_savings(view.tokens), self._turn_savings(turns, view)
        if cold:
            savings = (PruneSavings(sum(one.saved for one in savings), 0, 0),) * 2
        if not any(reason_to_prune(one, cold, self.settings, rates) for one in savings):
            return False
        # Making cards reads from the store, and pending entries must not wait for that.
        await self.session.flush()
        # The provider caches everything after the first cut again, however many cuts there are: prune all at once.
        return await self._append_cuts(view, rates, cold, sum(one.regret for one in savings))

    async def _append_cuts(self, view: PromptView, rates: CacheRates, cold: bool, regret: int) -> bool:
        views = self.session.views
        turns = find_prunable_turns(views, self.settings)
        cuts, saved = await self._cuts(turns, find_prunable_rounds(views, self.settings), view)
        first = cuts[0].first_seq if cuts else views.tail + 1
        exact = PruneSavings(saved, max(0, view.tokens_from(first) - saved), regret)
        reason = reason_to_prune(exact, cold, self.settings, rates)
        if not reason:
            # The cards are longer than estimated; the regret must build up again before the next attempt.
            self._prunable_rounds.regret = 0
            return False
        through = turns[-1].last_seq if turns else 0
        await self.session.append([Pruned(cuts=cuts, reason=reason, through_seq=through)], views.progress.turn_id)
        return True

    def _turn_savings(self, turns: Sequence[TurnSpan], view: PromptView) -> PruneSavings:
        if not turns:
            return PruneSavings(0, 0, 0)
        tokens = [sum(view.tokens_between(first, last) for first, last in turn.runs) for turn in turns]
        return estimate_card_savings(turns, tokens, view.tokens_from(turns[-1].last_seq + 1))

    async def _cuts(
        self, turns: Sequence[TurnSpan], rounds: Sequence[RoundSpan], view: PromptView
    ) -> tuple[tuple[Cut, ...], int]:
        """Return the cuts in order and the tokens they save together."""
        cuts: list[Cut] = []
        saved = 0
        for turn in turns:
            entries, known = await read_ranges(self.session, turn.runs)
            text = turn_card(turn.turn_id, turn.n, entries, known, self.limits)
            (first, last), *others = turn.runs
            cuts += [Cut(first, last, text), *(Cut(*run) for run in others)]
            saved += sum(view.tokens_between(*run) for run in turn.runs) - estimate_tokens(text)
        for one in rounds:
            run = (one.first_seq, one.last_seq)
            entries, known = await read_ranges(self.session, [run])
            text = round_card(one.n, one.turn_n, entries, known, self.limits)
            gain = view.tokens_between(*run) - estimate_tokens(text)
            # A round that is hardly longer than its card stays visible.
            if gain * 2 > estimate_tokens(text):
                cuts.append(Cut(*run, text))
                saved += gain
        return tuple(sorted(cuts, key=_first_seq)), saved


def _first_seq(cut: Cut) -> int:
    return cut.first_seq
