"""Replaces the conversation up to a cut with a summary, written by a model or, if that fails, by a rule."""

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec

from timeloom.core.blocks import AnyBlock, PlansCompacted, RangeSummary
from timeloom.core.ids import TurnId
from timeloom.core.policy.compaction import FIRST_SEQ, CompactSettings
from timeloom.core.policy.gates import Ruling
from timeloom.core.render.entries.cards import CardLimits, turn_card
from timeloom.core.render.summary import clean_prose, longest_card, prose_of, recap, request_text, summary_text
from timeloom.core.tokens import estimate
from timeloom.core.view.plans import skeletons
from timeloom.ports.model import Finished, Model
from timeloom.runtime.context.read_range import read_runs
from timeloom.runtime.context.summary_facts import survivors
from timeloom.runtime.governance.governor import Governor
from timeloom.runtime.model_calls.side_call import SideCall, SideReply, side_call
from timeloom.runtime.model_calls.stream_reply import Ending
from timeloom.runtime.prompt.instructions.load import load_texts
from timeloom.runtime.session.session import Session

MAX_INPUT_TOKENS: Final = 40_000
"""Maximum input of the summary model. Less leaves out turns of a large window; more costs what compaction saves."""

MAX_REPLY_CHARS: Final = 40_000
"""Maximum characters kept of a reply, so that a model that does not stop cannot fill the memory."""

DEADLINE_S: Final = 120.0
"""How long the summary model may take. Smaller times out models that think; larger keeps the user waiting."""

LIMITS: Final = CardLimits(text_chars=2_000, rows=200)
"""How much of each turn the summary model is shown."""

CHANGED_COURSE: Final = "the user changed course"


class Former(msgspec.Struct, frozen=True):
    """The prose of the previous summary and the last entry it covers; empty if that summary was erased."""

    text: str = ""
    last_seq: int = 0


class Prose(msgspec.Struct, frozen=True):
    """The prose that a model wrote and the blocks to append with it; if it wrote none, the reason."""

    text: str = ""
    why_not: str = ""
    blocks: tuple[AnyBlock, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """Summarizes one conversation; without a model, by extracting lines from its turns."""

    session: Session
    governor: Governor
    model: Model | None
    settings: CompactSettings
    text_chars: int
    deadline_s: float = DEADLINE_S

    async def compact(self, cut: int, tokens: int, interrupt: asyncio.Event, *, by_hand: str = "") -> None:
        """Append a summary of up to `tokens` tokens that replaces all entries up to `cut`.

        A model writes it, unless `fallback_reason` says why it must not. A summary is appended in any case.
        """
        session = self.session
        turn = session.views.progress.turn_id
        former = await self._former()
        kept = await survivors(session, cut, tokens, self.text_chars)
        prose = Prose(why_not=by_hand) if by_hand else await self._prose(cut, former, interrupt)
        turns = session.views.turns.turns
        fresh = [row for row in kept.turns if turns[row.turn_id].spans[0][1] > former.last_seq]
        text = prose.text or recap(former.text, fresh, min(self.settings.prose_tokens, tokens // 3))
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

    def _covered(self, cut: int) -> tuple[TurnId, ...]:
        turns = self.session.views.turns.turns.items()
        return tuple(turn_id for turn_id, turn in turns if turn.spans[0][1] <= cut)

    async def _former(self) -> Former:
        """Return the previous summary, which the new one includes; empty if it was erased."""
        forgetting = self.session.views.forgetting
        seq = forgetting.summary_seq
        for entry in await self.session.entries([seq] if seq else []):
            if isinstance(entry.block, RangeSummary) and not entry.block.erased:
                return Former(prose_of(await self.session.text(entry.block.text)), forgetting.summed_seq)
        return Former()

    async def _prose(self, cut: int, former: Former, interrupt: asyncio.Event) -> Prose:
        if self.model is None:
            return Prose(why_not="no model is set for it")
        turn, system = self.session.views.progress.turn_id, load_texts()["compaction"]
        room = min(MAX_INPUT_TOKENS, self.model.window_tokens // 2) - estimate(system)
        cards = await self._cards(former.last_seq, cut, room)
        asked = SideCall(
            purpose="compaction",
            what="summary",
            turn=turn,
            key=f"compaction/{turn}/{cut}",
            system=system,
            tail=request_text(former.text, cards, self.settings.prose_tokens, room),
            max_output_tokens=self.settings.prose_tokens * 2,
            max_reply_chars=MAX_REPLY_CHARS,
            deadline_s=self.deadline_s,
            given_up=CHANGED_COURSE,
        )
        match await side_call(self.session, self.governor, self.model, asked, interrupt):
            case Ruling(text=why_not):
                return Prose(why_not=why_not)
            case SideReply(text=text, ending=ending, outcome=outcome):
                prose = clean_prose(text) if isinstance(ending, Finished) else ""
                return Prose(prose, "" if prose else _why_not(ending), (outcome,))

    async def _cards(self, done: int, cut: int, tokens: int) -> list[str]:
        """Return cards of the turns after entry `covered_seq` up to `cut`, oldest first, within `tokens`."""
        cards: list[str] = []
        most = longest_card(tokens)
        for turn_id, turn in reversed(self.session.views.turns.turns.items()):
            runs = [
                (max(first, done + 1), min(last, cut)) for first, last in turn.spans if last > done and first <= cut
            ]
            if turn.spans[0][1] <= done or tokens < 0:
                break
            if runs:
                entries, known = await read_runs(self.session, runs)
                cards.append(turn_card(turn_id, turn.n, entries, known, LIMITS))
                tokens -= min(estimate(cards[-1]), most)
        return cards[::-1]


def _why_not(ending: Ending) -> str:
    match ending:
        case Finished():
            return "its model wrote nothing"
        case None:
            return CHANGED_COURSE
        case error:
            return f"its model failed: {error}"
