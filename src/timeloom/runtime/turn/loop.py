"""The turn: ask the policy what is next, do it, append, until the turn has ended."""

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
"""Why a turn does not go on: it has ended, or a person has to decide first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What turns of one conversation are run with."""

    session: Session
    asking: Asking
    room: Room
    workshop: Workshop
    inbox: Inbox
    titles: Titling
    limits: Limits
    rerun: bool = False
    """Whether the turns are those of a re-run, and say so."""

    async def run(
        self, prompt: str, attachments: tuple[AttachmentMeta | Attachment, ...] = (), turn_id: TurnId | None = None
    ) -> Pause:
        """Opens a turn with the user's prompt, runs it as far as it goes and says why it went no further.

        `turn_id` is given where the attachments' paths name the turn already.
        """
        await self.titles.give_up()
        turn = turn_id or self.session.new_turn_id()
        started = TurnStarted(n=len(self.session.views.turns.turns) + 1, rerun=self.rerun)
        sources = attached_sources(attachments, self.session.views.sources.pool)
        await self.session.append([started, UserPrompt(text=prompt), *attachments, *sources], turn)
        return await self.go_on()

    async def go_on(self) -> Pause:
        """Runs the open turn from wherever the timeline says it stands, as far as it goes."""
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
                # The step was chosen with all that was said until now; what interrupts it comes after.
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
        """Sees to what is left to do once a turn has ended, also where a process that is gone left it: the title.

        Call it after opening a conversation and before closing it; it may take as long as a model does.
        """
        if not self.session.views.progress.running:
            await self.titles.settle()


def _end(session: Session, turn: TurnId) -> EndReason:
    known = session.views.turns.turns.get(turn)
    return known.ended if known and known.ended else "runtime_error"
