"""The turn loop: asks the policy for the next step and executes it until the turn ends."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, assert_never

from timeloom.core.blocks import (
    AnyBlock,
    Attachment,
    AttachmentMeta,
    CompactionEnded,
    CompactionRequested,
    EndReason,
    ExternalEvent,
    Notice,
    RoundStarted,
    TurnEnded,
    UserPrompt,
)
from timeloom.core.ids import MessageId, TurnId
from timeloom.core.policy.next_step import (
    Action,
    AskModel,
    CompactContext,
    DropCall,
    EndTurn,
    ExecuteAction,
    Idle,
    RejectReply,
    RunCall,
    SettleCall,
    StartRound,
    Step,
    TurnLimits,
    WaitForApproval,
    next_step,
)
from timeloom.core.stream.declared import NO_CHANNELS, DeclaredChannel
from timeloom.core.timeline import Entry
from timeloom.runtime.context.fit_window import ContextFitter
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.ask_model import ModelCaller, ask_model
from timeloom.runtime.turn.attachments import IncomingFile
from timeloom.runtime.turn.execute_action import ActionContext, execute_action, settle_open_call
from timeloom.runtime.turn.inbox import Inbox
from timeloom.runtime.turn.start import open_turn
from timeloom.runtime.turn.title import TitleGenerator

TurnOutcome = EndReason | Literal["waiting"]
"""How a run stopped: the reason for which the turn ended, or "waiting" for a person's decision."""


class TurnWorkflow(Protocol):
    """Runs the turns of a conversation with code of a product, which calls `TurnRunner.run_steps` for the agent's part.

    One object serves all turns while the conversation is open.
    """

    async def run_turn(self, turns: "TurnRunner", /) -> Literal["ended", "waiting"]:
        """Run the open turn until it has ended on the timeline, or waits for a person's decision."""
        ...


class TurnGuard(Protocol):
    """Decides whether a turn may begin."""

    async def is_outdated(self) -> bool:
        """Return whether the conversation should be opened again first; raise `CodedError` if no turn may begin."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRunner:
    """Runs the turns of one conversation."""

    session: Session
    model_caller: ModelCaller
    context_fitter: ContextFitter
    action_context: ActionContext
    inbox: Inbox
    titles: TitleGenerator
    limits: TurnLimits
    rerun: bool = False
    """Whether the turns belong to a re-run; `TurnStarted` records it."""
    edition: int = 1
    """The edition of new turns, unless the conversation already has a later one."""
    output: str = ""
    """The JSON schema of the answers of new turns, unless a turn is opened with its own; empty for plain text."""
    channels: tuple[DeclaredChannel, ...] = NO_CHANNELS
    """The channels that new turns declare beside the built-in ones."""
    workflow: TurnWorkflow | None = None
    """Runs the turns; None runs their steps directly."""
    guard: TurnGuard | None = None
    """Decides whether a turn may begin; None lets each one begin."""
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(
        self,
        prompt: str,
        attachments: tuple[AttachmentMeta | Attachment, ...] = (),
        turn_id: TurnId | None = None,
        quoted_roles: tuple[str, ...] = (),
        output: str = "",
    ) -> TurnOutcome:
        """Open a turn with the user's prompt, run it and return how it stopped.

        Pass `turn_id` if the paths of the attachments already contain it. `output` is the JSON schema of the answer.
        """
        await self.is_outdated()
        await self.titles.stop()
        message = UserPrompt(text=prompt, quoted_roles=quoted_roles)
        await open_turn(
            self.session,
            message,
            attachments=attachments,
            turn_id=turn_id,
            rerun=self.rerun,
            edition=self.edition,
            output=output or self.output,
            channels=self.channels,
        )
        await self.session.flush()
        return await self.resume()

    async def open_turn(
        self, message: UserPrompt | ExternalEvent, files: Sequence[IncomingFile] = (), output: str = ""
    ) -> Entry:
        """Open a turn with this message and return its entry, which becomes durable with the turn's first step."""
        await self.is_outdated()
        await self.titles.stop()
        return await open_turn(
            self.session,
            message,
            files,
            rerun=self.rerun,
            edition=self.edition,
            output=output or self.output,
            channels=self.channels,
        )

    async def is_outdated(self) -> bool:
        """Return whether the conversation should be opened again before a turn; raise if no turn may begin."""
        return await self.guard.is_outdated() if self.guard else False

    async def resume(self) -> TurnOutcome:
        """Run the open turn from its current state on the timeline until it ends or waits for a person.

        A second call waits for the first one, so that no step is made twice.
        """
        async with self._one_at_a_time:
            return await self._run_steps()

    async def run_steps(self) -> EndTurn | Literal["waiting"] | None:
        """Run the steps of the open turn for its workflow, and return the end that the policy chose.

        The end is not recorded: the workflow calls `end_turn`. Returns "waiting" if a person has to decide, and None if
        the turn has ended already.
        """
        progress = self.session.views.progress
        while progress.running:
            match await self._choose_step():
                case EndTurn() as end:
                    return end
                case WaitForApproval():
                    return "waiting"
                case Idle():
                    return None
                case step:
                    await self._execute(step, progress.turn_id)
        return None

    async def end_turn(
        self, end: EndTurn, blocks: Sequence[AnyBlock] = (), *, after: int | None = None
    ) -> tuple[Entry, ...]:
        """Append the blocks and the end of the open turn together; `after` is as in `Session.append`."""
        ended = TurnEnded(reason=end.reason, text=end.text)
        return await self.session.append(
            [*blocks, ended, *self.titles.title_at_end(end.reason)], self.session.views.progress.turn_id, after=after
        )

    async def _run_steps(self) -> TurnOutcome:
        progress = self.session.views.progress
        while True:
            turn = progress.turn_id
            if self.workflow and progress.running:
                if await self.workflow.run_turn(self) == "waiting":
                    return "waiting"
                continue
            step = await self._choose_step()
            if self.workflow and progress.running:
                # The turn was opened while the step was chosen.
                continue
            match step:
                case WaitForApproval():
                    return "waiting"
                case Idle():
                    await self.titles.start()
                    return _end_reason(self.session, turn)
                case _:
                    # A turn may have been opened while a compaction ran.
                    await self._execute(step, progress.turn_id)

    async def _choose_step(self) -> Step:
        views = self.session.views
        reply = await self.model_caller.load_reply()
        return next_step(
            views.progress,
            reply,
            self.limits,
            self.action_context.registry.custom_traits,
            views.repeated,
            views.compactions.next_request,
            views.turns.output,
        )

    async def _execute(self, step: Action, turn: TurnId) -> None:
        match step:
            case StartRound(round=number):
                await self.session.append_deferred([RoundStarted(round=number)], turn)
            case AskModel():
                # The step was chosen with all messages so far; only later ones may interrupt it.
                self.inbox.interrupt.clear()
                if overflow_text := await self.context_fitter.fit(step, self.inbox.interrupt):
                    await self.session.append([TurnEnded(reason="runtime_error", text=overflow_text)], turn)
                else:
                    await ask_model(self.model_caller, step, self.inbox.interrupt)
            case CompactContext(request=request):
                self.inbox.interrupt.clear()
                await self.context_fitter.compact(request, self.inbox.interrupt)
            case RejectReply(remarks=remarks):
                await self.session.append_deferred([Notice(code=one.code, text=one.text) for one in remarks], turn)
            case ExecuteAction(decision=decision):
                await execute_action(self.action_context, decision, await self.model_caller.load_reply())
            case SettleCall() | RunCall() | DropCall():
                self.inbox.interrupt.clear()
                await settle_open_call(self.action_context, step)
            case EndTurn():
                await self.end_turn(step)
            case _:
                assert_never(step)

    async def compact(
        self, focus: str = "", keep: int = 0, message_id: MessageId | None = None
    ) -> CompactionEnded | None:
        """Summarize the conversation before its newest `keep` rounds and return the outcome.

        `focus` says what the summary should keep, and 0 rounds stand for the default. If a turn is open, the request is
        carried out before its next round, and None is returned. A request with a known `message_id` is not repeated.
        """
        request = await self.inbox.request_compaction(focus, keep, message_id)
        if not self.session.views.progress.running:
            await self.resume()
        assert isinstance(request.block, CompactionRequested)
        outcome = self.session.views.compactions.outcomes.get(request.block.message_id)
        for entry in await self.session.entries([outcome] if outcome else []):
            assert isinstance(entry.block, CompactionEnded)
            return entry.block
        return None

    async def ensure_title(self) -> None:
        """Generate the title if it is missing after a turn has ended, also if a crashed process left it out.

        Call it after opening a conversation and before closing it; it may take as long as a model call.
        """
        if not self.session.views.progress.running:
            await self.titles.finish()


def _end_reason(session: Session, turn: TurnId) -> EndReason:
    known = session.views.turns.turns.get(turn)
    return known.ended if known and known.ended else "runtime_error"
