"""Replaces the conversation up to a cut with a summary, written by a model or, if that fails, by a rule."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from timeloom.core.blocks import AnyBlock, CompactionEnded, PlansCompacted, RangeSummary
from timeloom.core.ids import MessageId, TurnId
from timeloom.core.policy.compaction import FIRST_SEQ, CompactSettings
from timeloom.core.policy.gates import PolicyResult
from timeloom.core.render.editions import renderer_for
from timeloom.core.render.facts import CardLimits, SummaryFacts
from timeloom.core.render.renderer import Renderer
from timeloom.core.render.v1.summary import (
    clean_prose,
    extract_prose,
    fallback_prose,
    max_card_tokens,
)
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.plans import make_skeletons
from timeloom.ports.model import FinishEvent, Model
from timeloom.runtime.context.read_range import read_ranges
from timeloom.runtime.context.summary_facts import EffectOf, collect_summary_facts
from timeloom.runtime.governance.governor import Governor
from timeloom.runtime.model_calls.side_call import SideCall, SideReply, make_side_call
from timeloom.runtime.model_calls.stream_reply import ReplyEnd
from timeloom.runtime.prompt.instructions.load import load_side_instructions
from timeloom.runtime.session.session import Session

MAX_INPUT_TOKENS: Final = 40_000
"""Maximum input of the summary model. Less leaves out turns of a large window; more costs what compaction saves."""

MAX_REPLY_CHARS: Final = 40_000
"""Maximum characters kept of a reply, so that a model that does not stop cannot fill the memory."""

DEADLINE_S: Final = 120.0
"""How long the summary model may take. Smaller times out models that think; larger keeps the user waiting."""

CARD_LIMITS: Final = CardLimits(text_chars=2_000, rows=200)
"""How much of each turn the summary model is shown."""

INTERRUPTED_BY_USER: Final = "the user changed course"

NO_MODEL: Final = "no model is set for it"


class PreviousSummary(msgspec.Struct, frozen=True):
    """The prose of the previous summary and the last entry it covers; empty if that summary was erased."""

    text: str = ""
    last_seq: int = 0


class SummaryOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The request that a summary fulfils: its id, its focus, and the tokens that the summary replaces."""

    message_id: MessageId
    focus: str
    covered_tokens: int


class SummaryInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a summary, as they were before a model was asked."""

    cut: int
    max_tokens: int
    previous: PreviousSummary
    facts: SummaryFacts
    order: SummaryOrder | None = None
    """The request that the summary fulfils; None if it is made because a prompt did not fit."""


class FailedSummary(msgspec.Struct, frozen=True):
    """A summary that no model wrote: the reason, its inputs, and the blocks to append with the summary after it."""

    reason: str
    inputs: SummaryInputs
    blocks: tuple[AnyBlock, ...] = ()


class DraftSummary(msgspec.Struct, frozen=True):
    """The prose that a model wrote and the blocks to append with it; if it wrote none, the reason."""

    text: str = ""
    failure: str = ""
    blocks: tuple[AnyBlock, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """Summarizes one conversation; without a model, by extracting lines from its turns."""

    session: Session
    governor: Governor
    model: Model | None
    settings: CompactSettings
    text_chars: int
    effect_of: EffectOf
    """Returns the effect of a tool; summaries mark the calls that had effects."""
    deadline_s: float = DEADLINE_S

    @property
    def _renderer(self) -> Renderer:
        return renderer_for(self.session.views.turns.edition)

    async def write_summary(
        self, cut: int, max_tokens: int, interrupt: asyncio.Event, order: SummaryOrder | None = None
    ) -> FailedSummary | None:
        """Append a summary that a model writes and that replaces all entries up to `cut`.

        If no model writes it, append nothing and return the failure.
        """
        inputs = await self._load_inputs(cut, max_tokens, order)
        draft = await self._draft_summary(inputs, interrupt)
        if not draft.text:
            return FailedSummary(draft.failure, inputs, draft.blocks)
        await self._append_summary(inputs, draft.text, draft.blocks)
        return None

    async def extract_summary(
        self,
        cut: int,
        max_tokens: int,
        reason: str,
        failed: FailedSummary | None = None,
        order: SummaryOrder | None = None,
    ) -> None:
        """Append a summary that is extracted from the turns and that replaces all entries up to `cut`.

        `reason` says why no model wrote it. After a failed attempt, the summary uses the inputs of that attempt.
        """
        inputs = failed.inputs if failed else await self._load_inputs(cut, max_tokens, order)
        turns, previous = self.session.views.turns.turns, inputs.previous
        fresh = [row for row in inputs.facts.turns if turns[row.turn_id].spans[0][1] > previous.last_seq]
        text = fallback_prose(previous.text, fresh, min(self.settings.prose_tokens, inputs.max_tokens // 3))
        facts = msgspec.structs.replace(inputs.facts, by_hand=reason)
        explained = msgspec.structs.replace(inputs, facts=facts)
        await self._append_summary(explained, text, failed.blocks if failed else ())

    async def _load_inputs(self, cut: int, max_tokens: int, order: SummaryOrder | None) -> SummaryInputs:
        previous = await self._load_previous_summary()
        facts = await collect_summary_facts(self.session, cut, max_tokens, self.text_chars, self.effect_of)
        return SummaryInputs(cut=cut, max_tokens=max_tokens, previous=previous, facts=facts, order=order)

    async def _append_summary(self, inputs: SummaryInputs, prose: str, blocks: Sequence[AnyBlock]) -> None:
        views, cut = self.session.views, inputs.cut
        turn = views.progress.turn_id
        summary = RangeSummary(
            covered_turn_ids=self._covered_turns(cut),
            text=self._renderer.summary_text(prose, inputs.facts, views, inputs.max_tokens, self.settings.prose_tokens),
            first_seq=FIRST_SEQ,
            last_seq=cut,
            n=views.turns.turns[turn].range_summaries + 1,
        )
        open_plans = [plan for plan in make_skeletons(views.plans, FIRST_SEQ, cut) if plan.snapshot.state == "open"]
        plans = [PlansCompacted(plans=tuple(open_plans))] if open_plans else []
        await self.session.append([*blocks, *plans, summary, *self._outcome(inputs, summary)], turn)

    def _outcome(self, inputs: SummaryInputs, summary: RangeSummary) -> tuple[CompactionEnded, ...]:
        """Return the outcome of the request; it is stored with the summary, so that no crash repeats the request."""
        if inputs.order is None:
            return ()
        turns, last_seq = self.session.views.turns.turns.values(), self.session.views.forgetting.summed_seq
        begun = sum(turn.spans[0][0] <= inputs.cut and turn.spans[0][1] > last_seq for turn in turns)
        assert isinstance(summary.text, str)
        ended = CompactionEnded(
            message_id=inputs.order.message_id,
            outcome="completed",
            turns=begun,
            covered_tokens=inputs.order.covered_tokens,
            summary_tokens=estimate_tokens(summary.text),
            text=inputs.facts.by_hand and f"no model wrote the summary: {inputs.facts.by_hand}",
        )
        return (ended,)

    def _covered_turns(self, cut: int) -> tuple[TurnId, ...]:
        turns = self.session.views.turns.turns.items()
        return tuple(turn_id for turn_id, turn in turns if turn.spans[0][1] <= cut)

    async def _load_previous_summary(self) -> PreviousSummary:
        """Return the previous summary, which the new one includes; empty if it was erased."""
        forgetting = self.session.views.forgetting
        seq = forgetting.summary_seq
        for entry in await self.session.entries([seq] if seq else []):
            if isinstance(entry.block, RangeSummary) and not entry.block.erased:
                return PreviousSummary(extract_prose(await self.session.text(entry.block.text)), forgetting.summed_seq)
        return PreviousSummary()

    async def _draft_summary(self, inputs: SummaryInputs, interrupt: asyncio.Event) -> DraftSummary:
        if self.model is None:
            return DraftSummary(failure=NO_MODEL)
        cut, previous = inputs.cut, inputs.previous
        turn = self.session.views.progress.turn_id
        system = load_side_instructions(self.session.views.turns.edition)["compaction"]
        max_tokens = min(MAX_INPUT_TOKENS, self.model.window_tokens // 2) - estimate_tokens(system)
        cards = await self._cards(previous.last_seq, cut, max_tokens)
        side = SideCall(
            purpose="compaction",
            result_name="summary",
            turn=turn,
            key=f"compaction/{turn}/{cut}",
            system=system,
            tail=self._renderer.summary_request(
                previous.text, cards, self.settings.prose_tokens, max_tokens, inputs.order.focus if inputs.order else ""
            ),
            max_output_tokens=self.settings.prose_tokens * 2,
            max_reply_chars=MAX_REPLY_CHARS,
            deadline_s=self.deadline_s,
            interrupted_reason=INTERRUPTED_BY_USER,
        )
        match await make_side_call(self.session, self.governor, self.model, side, interrupt):
            case PolicyResult(text=why_not):
                return DraftSummary(failure=why_not)
            case SideReply(text=text, ending=ending, outcome=outcome):
                prose = clean_prose(text) if isinstance(ending, FinishEvent) else ""
                return DraftSummary(prose, "" if prose else _failure_reason(ending), (outcome,))

    async def _cards(self, covered_seq: int, cut: int, tokens: int) -> list[str]:
        """Return cards of the turns after entry `covered_seq` up to `cut`, oldest first, within `tokens`."""
        cards: list[str] = []
        card_tokens = max_card_tokens(tokens)
        for turn_id, turn in reversed(self.session.views.turns.turns.items()):
            runs = [
                (max(first, covered_seq + 1), min(last, cut))
                for first, last in turn.spans
                if last > covered_seq and first <= cut
            ]
            if turn.spans[0][1] <= covered_seq or tokens < 0:
                break
            if runs:
                entries, known = await read_ranges(self.session, runs)
                cards.append(self._renderer.turn_card(turn_id, entries, self.session.views, known, CARD_LIMITS))
                tokens -= min(estimate_tokens(cards[-1]), card_tokens)
        return cards[::-1]


def _failure_reason(ending: ReplyEnd) -> str:
    match ending:
        case FinishEvent():
            return "its model wrote nothing"
        case None:
            return INTERRUPTED_BY_USER
        case error:
            return f"its model failed: {error}"
