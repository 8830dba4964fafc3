"""The turn: ask the policy what is next, do it, append, until the turn has ended."""

from dataclasses import dataclass
from typing import assert_never

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
    EndTurn,
    FinishCall,
    Limits,
    Rest,
    StartRound,
    Tell,
    next_step,
)
from timeloom.runtime.act import Workshop, carry_out, finish_call
from timeloom.runtime.ask_model import Asking, ask_model
from timeloom.runtime.inbox import Inbox
from timeloom.runtime.session import Session
from timeloom.runtime.shrink import shrink


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What turns of one conversation are run with."""

    session: Session
    asking: Asking
    workshop: Workshop
    inbox: Inbox
    limits: Limits

    async def run(self, prompt: str, attachments: tuple[AttachmentMeta | Attachment, ...] = ()) -> EndReason:
        """Opens a turn with the user's prompt, runs it to its end and says why it ended."""
        turn = self.session.new_turn_id()
        started = TurnStarted(n=len(self.session.views.turns.turns) + 1)
        await self.session.append([started, UserPrompt(text=prompt), *attachments], turn)
        return await self.go_on()

    async def go_on(self) -> EndReason:
        """Runs the open turn from wherever the timeline says it stands."""
        views = self.session.views
        turn = views.progress.turn_id
        while True:
            step = next_step(views.progress, await self.asking.reply(), self.limits)
            match step:
                case StartRound(round=number):
                    await self.session.append([RoundStarted(round=number)], turn)
                case AskModel():
                    if step.smaller:
                        await shrink(self.session)
                    self.inbox.interrupt.clear()
                    await ask_model(self.asking, step, self.inbox.interrupt)
                case Tell(remarks=remarks):
                    await self.session.append([Notice(code=one.code, text=one.text) for one in remarks], turn)
                case Act(decision=decision):
                    await carry_out(self.workshop, decision, await self.asking.reply())
                case FinishCall():
                    await finish_call(self.workshop)
                case EndTurn(reason=reason, text=text):
                    await self.session.append([TurnEnded(reason=reason, text=text)], turn)
                case Rest():
                    return _end(self.session, turn)
                case _:
                    assert_never(step)


def _end(session: Session, turn: TurnId) -> EndReason:
    known = session.views.turns.turns.get(turn)
    return known.ended if known and known.ended else "runtime_error"
