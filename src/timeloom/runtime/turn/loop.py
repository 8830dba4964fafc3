"""The turn loop: asks the policy for the next step and executes it until the turn ends."""

from dataclasses import dataclass
from typing import Literal, assert_never

from timeloom.core.blocks import (
    Attachment,
    AttachmentMeta,
    EndReason,
    Notice,
    RoundStarted,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import TurnId
from timeloom.core.policy.next_step import (
    Act,
    AskModel,
    Deed,
    DropCall,
    EndTurn,
    FinishCall,
    Limits,
    Rest,
    RunCall,
    StartRound,
    Tell,
    Wait,
    next_step,
)
from timeloom.runtime.context.fit_window import Room
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.ask_model import Asking, ask_model
from timeloom.runtime.turn.attachments import attached_sources
from timeloom.runtime.turn.execute_action import Workshop, carry_out, close_call
from timeloom.runtime.turn.inbox import Inbox
from timeloom.runtime.turn.title import Titling

Pause = EndReason | Literal["waiting"]
"""How a run stopped: the reason for which the turn ended, or "waiting" for a person's decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Runs the turns of one conversation."""

    session: Session
    asking: Asking
    room: Room
    workshop: Workshop
    inbox: Inbox
    titles: Titling
    limits: Limits
    rerun: bool = False
    """Whether the turns belong to a re-run; `TurnStarted` records it."""

    async def run(
        self, prompt: str, attachments: tuple[AttachmentMeta | Attachment, ...] = (), turn_id: TurnId | None = None
    ) -> Pause:
        """Open a turn with the user's prompt, run it and return how it stopped.

        Pass `turn_id` if the paths of the attachments already contain it.
        """
        await self.titles.give_up()
        turn = turn_id or self.session.new_turn_id()
        started = TurnStarted(n=len(self.session.views.turns.turns) + 1, rerun=self.rerun)
        sources = attached_sources(attachments, self.session.views.sources.pool)
        await self.session.append([started, UserPrompt(text=prompt), *attachments, *sources], turn)
        return await self.go_on()

    async def go_on(self) -> Pause:
        """Run the open turn from its current state on the timeline until it ends or waits for a person."""
        views = self.session.views
        turn = views.progress.turn_id
        while True:
            step = next_step(views.progress, await self.asking.reply(), self.limits)
            match step:
                case Wait():
                    return "waiting"
                case Rest():
                    await self.titles.begin()
                    return _end(self.session, turn)
                case _:
                    await self._take(step, turn)

    async def _take(self, step: Deed, turn: TurnId) -> None:
        match step:
            case StartRound(round=number):
                await self.session.append_deferred([RoundStarted(round=number)], turn)
            case AskModel():
                # The step was chosen with all messages so far; only later ones may interrupt it.
                self.inbox.interrupt.clear()
                if why_not := await self.room.make(step, self.inbox.interrupt):
                    await self.session.append([TurnEnded(reason="runtime_error", text=why_not)], turn)
                else:
                    await ask_model(self.asking, step, self.inbox.interrupt)
            case Tell(remarks=remarks):
                await self.session.append_deferred([Notice(code=one.code, text=one.text) for one in remarks], turn)
            case Act(decision=decision):
                await carry_out(self.workshop, decision, await self.asking.reply())
            case FinishCall() | RunCall() | DropCall():
                self.inbox.interrupt.clear()
                await close_call(self.workshop, step)
            case EndTurn(reason=reason, text=text):
                await self.session.append([TurnEnded(reason=reason, text=text), *self.titles.at_end(reason)], turn)
            case _:
                assert_never(step)

    async def settle(self) -> None:
        """Generate the title if it is missing after a turn has ended, also if a crashed process left it out.

        Call it after opening a conversation and before closing it; it may take as long as a model call.
        """
        if not self.session.views.progress.running:
            await self.titles.settle()


def _end(session: Session, turn: TurnId) -> EndReason:
    known = session.views.turns.turns.get(turn)
    return known.ended if known and known.ended else "runtime_error"
