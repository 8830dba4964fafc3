"""Compacting: a model, or a rule where that fails, sums up the conversation up to a cut, which goes out of sight."""

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec

from timeloom.core.blocks import AnyBlock, ModelCalled, PlansCompacted, RangeSummary
from timeloom.core.ids import TurnId
from timeloom.core.policy.compaction import FIRST_SEQ, CompactSettings
from timeloom.core.policy.gates import ModelStep, Ruling
from timeloom.core.render.cards import CardLimits, turn_card
from timeloom.core.render.summary import clean_prose, prose_of, recap, request_text, summary_text
from timeloom.core.tokens import estimate
from timeloom.core.view.plans import skeletons
from timeloom.ports.model import Finished, Model, ModelError, ModelRequest, TextSegment
from timeloom.runtime.costs import is_priced, model_cost, model_most, with_guess
from timeloom.runtime.covered import read_runs
from timeloom.runtime.govern import Admission, Governor
from timeloom.runtime.hear_reply import Ending, hear_reply, outcome_of, unless
from timeloom.runtime.load_texts import load_texts
from timeloom.runtime.prompting import request_sha256
from timeloom.runtime.session import Session
from timeloom.runtime.survivors import survivors

MAX_INPUT_TOKENS: Final = 40_000
"""Most that a summariser is shown. Less leaves out turns of a large window; more costs what forgetting should save."""

MAX_REPLY_CHARS: Final = 40_000
"""How much of a reply is taken; a model that does not stop fills no memory."""

DEADLINE_S: Final = 120.0
"""How long a summariser may take. Smaller gives up on models that think; larger keeps the user waiting."""

LIMITS: Final = CardLimits(text_chars=2_000, rows=200)
"""How much of each turn a summariser is shown."""


class Prose(msgspec.Struct, frozen=True):
    """What a model wrote, and what goes on the timeline with it; where it wrote nothing, why."""

    text: str = ""
    why_not: str = ""
    blocks: tuple[AnyBlock, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """Sums up one conversation; without a model, by hand."""

    session: Session
    governor: Governor
    model: Model | None
    settings: CompactSettings
    text_chars: int
    deadline_s: float = DEADLINE_S

    async def compact(self, cut: int, tokens: int, interrupt: asyncio.Event, *, by_hand: str = "") -> None:
        """Puts a summary of so many tokens in the place of everything up to that entry.

        A model writes it unless `by_hand` says why not. Whatever becomes of that, there is a summary afterwards.
        """
        session = self.session
        turn = session.views.progress.turn_id
        former = await self._former()
        kept = await survivors(session, cut, tokens, self.text_chars)
        prose = Prose(why_not=by_hand) if by_hand else await self._prose(cut, former, interrupt)
        fresh = [turn for turn in kept.turns if self._is_fresh(turn.turn_id)]
        text = prose.text or recap(former, fresh, min(self.settings.prose_tokens, tokens // 3))
        kept = msgspec.structs.replace(kept, by_hand=prose.why_not)
        summary = RangeSummary(
            covered_turn_ids=self._covered(cut),
            text=summary_text(text, kept, tokens, self.settings.prose_tokens),
            first_seq=FIRST_SEQ,
            last_seq=cut,
            n=session.views.turns.turns[turn].range_summaries + 1,
        )
        open_plans = [plan for plan in skeletons(session.views.plans, FIRST_SEQ, cut) if plan.snapshot.state == "open"]
        plans = [PlansCompacted(plans=tuple(open_plans))] if open_plans else []
        await session.append([*prose.blocks, *plans, summary], turn)

    def _is_fresh(self, turn: TurnId) -> bool:
        """Whether no summary stands for that turn yet."""
        views = self.session.views
        return views.turns.turns[turn].spans[0][1] > views.forgetting.summed_seq

    def _covered(self, cut: int) -> tuple[TurnId, ...]:
        turns = self.session.views.turns.turns.items()
        return tuple(turn_id for turn_id, turn in turns if turn.spans[0][1] <= cut)

    async def _former(self) -> str:
        """The prose of the summary that the new one takes in."""
        seq = self.session.views.forgetting.summary_seq
        for entry in await self.session.entries([seq] if seq else []):
            if isinstance(entry.block, RangeSummary):
                return prose_of(await self.session.text(entry.block.text))
        return ""

    async def _prose(self, cut: int, former: str, interrupt: asyncio.Event) -> Prose:
        if self.model is None:
            return Prose(why_not="no model is set for it")
        model, session = self.model, self.session
        system = load_texts()["compaction"]
        room = min(MAX_INPUT_TOKENS, model.window_tokens // 2) - estimate(system)
        tail = request_text(former, await self._cards(cut), self.settings.prose_tokens, room)
        call = ModelCalled(
            round=max(1, session.views.progress.round),
            model=model.name,
            request_sha256=request_sha256(system, "", tail),
            purpose="compaction",
            system=system,
            tail=tail,
            estimated_tokens=estimate(system) + estimate(tail),
        )
        request = ModelRequest(
            system=system,
            segments=(TextSegment(tail),),
            purpose="compaction",
            max_output_tokens=self.settings.prose_tokens * 2,
            system_cache_point=False,
            number=session.views.spend.outcomes.get("compaction", 0),
            opening=session.opening,
        )
        admission = await self._admission(model, call, cut, interrupt)
        if admission.ruling.verdict != "allow":
            # Nobody is asked about a summary: there is one without the model.
            return Prose(why_not=admission.ruling.text)
        async with self.governor.charging(admission) as bill:
            await session.append([call], session.views.progress.turn_id)
            heard = _Heard()
            ending = await self._heard(model, request, heard, interrupt)
            outcome = with_guess(outcome_of(call, heard.text, ending), call, model)
            bill.cost = model_cost(outcome.usage, rounds=0)
        prose = clean_prose(heard.text) if isinstance(ending, Finished) else ""
        return Prose(prose, "" if prose else _why_not(ending), (outcome,))

    async def _cards(self, cut: int) -> list[str]:
        """What happened in each turn up to the cut that no summary stands for yet, oldest first."""
        views = self.session.views
        done = views.forgetting.summed_seq
        cards: list[str] = []
        for turn_id, turn in reversed(views.turns.turns.items()):
            runs = [
                (max(first, done + 1), min(last, cut)) for first, last in turn.spans if last > done and first <= cut
            ]
            if turn.spans[0][1] <= done:
                break
            if runs:
                entries, known = await read_runs(self.session, runs)
                cards.append(turn_card(turn_id, turn.n, entries, known, LIMITS))
        return cards[::-1]

    async def _admission(self, model: Model, call: ModelCalled, cut: int, interrupt: asyncio.Event) -> Admission:
        step = ModelStep(
            model=model.name, round=call.round, prompt_tokens=call.estimated_tokens, priced=is_priced(model)
        )
        most = model_most(model, call.estimated_tokens, self.settings.prose_tokens * 2, rounds=0)
        key = f"compaction/{self.session.views.progress.turn_id}/{cut}"
        try:
            async with asyncio.timeout(self.deadline_s):
                admission = await unless(interrupt, self.governor.admit(step, key, most))
        except TimeoutError:
            return Admission(Ruling("refuse", "others were using up a budget", policy="compaction"))
        return admission or Admission(Ruling("refuse", "the user changed course", policy="compaction"))

    async def _heard(self, model: Model, request: ModelRequest, heard: "_Heard", interrupt: asyncio.Event) -> Ending:
        try:
            async with asyncio.timeout(self.deadline_s):
                return await hear_reply(model, request, heard, interrupt)
        except TimeoutError:
            return ModelError("timeout", f"there was no summary within {self.deadline_s:g} s")


class _Heard:
    """The beginning of a reply."""

    def __init__(self) -> None:
        self.text = ""

    def take(self, text: str) -> None:
        self.text += text[: MAX_REPLY_CHARS - len(self.text)]

    def think(self, text: str) -> None:
        pass


def _why_not(ending: Ending) -> str:
    match ending:
        case Finished():
            return "its model wrote nothing"
        case None:
            return "the user changed course"
        case error:
            return f"its model failed: {error}"
