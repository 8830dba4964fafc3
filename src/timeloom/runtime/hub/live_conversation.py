"""One conversation that is open in this process: carries out the effects that its state machine chooses.

`state.transition` decides; this module queues inputs, opens and releases the session, runs turns and replies.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, Protocol, assert_never

import msgspec

from timeloom.core.blocks import AnyBlock, ConversationStarted, ExternalEvent, ModelAnswered, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.sources import SourceRow
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import pending_approvals
from timeloom.platform.tasks import cancel_and_wait
from timeloom.ports.leases import LeaseLostError
from timeloom.ports.store import Store, StoreError
from timeloom.runtime.hub.events import (
    ChatError,
    ConvStatus,
    as_interrupted,
    to_chat_delta,
    to_compaction_event,
    to_status,
)
from timeloom.runtime.hub.incoming import add_to_turn, to_external_event
from timeloom.runtime.hub.input_queue import InputItem, InputQueue, Reply
from timeloom.runtime.hub.live_citations import LiveCitationRewriter
from timeloom.runtime.hub.state import (
    COMPACT_EVENT,
    AppendRequest,
    ArmIdleTimer,
    CloseRequest,
    CreateRequest,
    DecideRequest,
    DeliverRequest,
    Effect,
    FailedState,
    HandleRequest,
    IdleState,
    IdleTimeout,
    IncomingMessage,
    Input,
    LeaseLost,
    OpenSession,
    PauseQueue,
    PinRequest,
    PublishError,
    PublishStatus,
    RejectRequest,
    ReleasedState,
    ReleaseRequest,
    ReleaseSession,
    Request,
    ResumeOpenWork,
    ResumeRequest,
    SendReceipt,
    SendStatus,
    SettleTitle,
    StartTurnTask,
    State,
    TitleSettled,
    TurnOpened,
    TurnStopped,
    transition,
)
from timeloom.runtime.hub.store_follower import StoreFollower
from timeloom.runtime.hub.subscription import Broadcaster, StoreTail
from timeloom.runtime.hub.write_recovery import WriteRecovery, is_write_failure
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.form_answers import form_answer_text
from timeloom.runtime.turn.loop import TurnRunner

_logger = logging.getLogger(__name__)

INTERNAL_ERROR_TEXT: Final = "The turn failed unexpectedly. Send another message to resume it."


class ConversationOpener(Protocol):
    """Opens a conversation, or starts one if a header is given, and returns its turn runner.

    Raises `ConversationHeldError` if another process holds the conversation.
    """

    async def __call__(
        self, conversation: ConversationId, header: ConversationStarted | None, hear: Callable[[LiveDelta], None]
    ) -> TurnRunner: ...


class LiveConversation:
    """One open conversation: inputs are handled one at a time, and at most one task runs its turns."""

    def __init__(
        self,
        conversation: ConversationId,
        store: Store,
        opener: ConversationOpener,
        rest_s: float,
        on_empty: Callable[["LiveConversation"], None],
        write_recovery: WriteRecovery,
    ) -> None:
        self.conversation = conversation
        self.broadcaster = Broadcaster()
        self.user_count = 0
        """The number of requests and readers that use it now."""
        self._opener = opener
        self._rest_s = rest_s
        self._write_recovery = write_recovery
        self._state: State = ReleasedState()
        self._inputs = InputQueue(f"inputs of {conversation}", self._process, lambda: on_empty(self))
        self._numbers = count(1)
        self._turn_runner: TurnRunner | None = None
        self._failed_status: ConvStatus | None = None
        """The status to show while the conversation is reopened after a failed turn."""
        self._citations = LiveCitationRewriter(self._sources, self._publish_delta)
        self._task: asyncio.Task[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._settling: set[asyncio.Task[None]] = set()
        self._follower = StoreFollower(conversation, store, self.broadcaster)

    @property
    def is_empty(self) -> bool:
        """Whether it has no users, no open session and no work in progress."""
        return not (self.user_count or self._turn_runner or self._inputs.is_busy or self._settling)

    @property
    def turn_runner(self) -> TurnRunner | None:
        """The turn runner while the conversation is open in this process, else None."""
        return self._turn_runner

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The task that runs a turn, or None."""
        return self._task if self._task and not self._task.done() else None

    @property
    def status(self) -> ConvStatus | None:
        """The status while the conversation is open in this process, or reopened after a failed turn; else None."""
        if self._turn_runner is None:
            return self._failed_status
        session = self._turn_runner.session
        status = to_status(self.conversation, session.views, session.stored_tail)
        return as_interrupted(status) if self.has_failed else status

    @property
    def has_failed(self) -> bool:
        """Whether the last turn stopped at an error; the next message resumes it."""
        return isinstance(self._state, FailedState)

    async def create(self, header: ConversationStarted) -> None:
        """Create the conversation without messages."""
        await self._inputs.submit(CreateRequest(header))

    async def create_with_message(self, header: ConversationStarted, message: IncomingMessage) -> SendReceipt:
        """Create the conversation and open its first turn with this message."""
        return _receipt(await self._inputs.submit(CreateRequest(header, message)))

    async def deliver(self, message: IncomingMessage) -> SendReceipt:
        """Handle a message, a steer, a cancellation or another event, by its kind."""
        return _receipt(await self._inputs.submit(DeliverRequest(message)))

    async def decide(self, call_id: CallId, approved: bool, by: str, text: str) -> SendReceipt:
        """Record a person's decision on a requested approval and resume the turn."""
        return _receipt(await self._inputs.submit(DecideRequest(call_id, approved, by, text)))

    async def append(self, blocks: Sequence[AnyBlock], turn_id: TurnId) -> tuple[Entry, ...]:
        """Append blocks that need no turn."""
        entries = await self._inputs.submit(AppendRequest(blocks, turn_id))
        assert isinstance(entries, tuple)
        return entries

    async def pin(self, path: str, pinned: bool, author: str) -> Entry:
        """Pin the blocks at the path, or end their pin."""
        entries = await self._inputs.submit(PinRequest(path, pinned, author))
        assert isinstance(entries, tuple)
        return entries[0]

    async def resume_turn(self) -> None:
        """Resume an open turn; return once it has ended or waits for a person."""
        await self.start_open_turn()
        await self._wait_for_turn()

    async def start_open_turn(self) -> None:
        """Start an open turn again, if no task runs it."""
        await self._inputs.submit(ResumeRequest())

    @asynccontextmanager
    async def release_temporarily(self, *, stops_turn: bool) -> AsyncGenerator[None]:
        """Release the lease while the context lasts; a running turn raises `turn_open`, unless `stops_turn` is set."""
        finished = asyncio.Event()
        try:
            await self._inputs.submit(ReleaseRequest(stops_turn), finished)
            yield
        finally:
            finished.set()

    async def close(self, why: ChatError) -> None:
        """Stop a running turn, which stays open on the timeline, release the conversation and end all streams."""
        self.broadcaster.end(why)
        # Requests that still wait in the queue are refused after this.
        await self._inputs.submit(CloseRequest(why), first=True)
        if self._settling:
            await asyncio.wait(self._settling)
        if follower := self._follower.stop():
            await cancel_and_wait(follower)

    def follow(self) -> None:
        """Forward entries that other processes write to the readers, while the conversation is not open here."""
        if self._turn_runner is None:
            self._follower.start()

    def unfollow(self) -> None:
        """Stop following if no readers are left, or if the conversation is open here."""
        if self._turn_runner or not self.broadcaster.has_readers:
            self._follower.stop()

    async def _process(self, item: InputItem) -> Reply:
        return await self._advance(item.given, item)

    async def _advance(self, given: Input, item: InputItem | None = None) -> Reply:
        """Enter the next state, carry out its effects, and return the reply of the last one that has one."""
        self._state, effects = transition(self._state, given)
        result: Reply = None
        for effect in effects:
            reply = await self._perform(effect, item)
            result = result if reply is None else reply
        return result

    async def _perform(self, effect: Effect, item: InputItem | None) -> Reply:
        match effect:
            case OpenSession(header=header):
                await self._open(header)
            case HandleRequest(request=request):
                return await self._handle(request)
            case StartTurnTask() | ResumeOpenWork():
                await self._start_work(effect)
            case ArmIdleTimer():
                self._arm_idle_timer()
            case SettleTitle(settle_no=settle_no):
                self._settle_title(settle_no)
            case ReleaseSession():
                await self._release()
            case PublishError() | PublishStatus():
                self._publish(effect)
            case PauseQueue():
                assert item, "only a request pauses the queue"
                await item.pause()
            case RejectRequest(code=code, message=message):
                raise CodedError(code, message)
            case _:
                assert_never(effect)
        return None

    async def _handle(self, request: Request) -> Reply:
        turns = self._require_session()
        match request:
            case CreateRequest(message=message):
                if message:
                    return await self._open_turn(turns, message)
                async with self._release_on_error():
                    await turns.session.flush()
            case DeliverRequest(message=message):
                return await self._deliver(turns, message)
            case DecideRequest(call_id=call_id, approved=approved, by=by, text=text):
                if entry := await turns.inbox.decide(call_id, approved, by, text):
                    return await self._accept(entry, "decided")
                raise CodedError("approval_unknown", f"no approval is pending for the call {call_id[:60]!r}")
            case AppendRequest(blocks=blocks, turn_id=turn_id):
                return await turns.session.append(blocks, turn_id)
            case PinRequest(path=path, pinned=pinned, author=author):
                pins = turns.context_fitter.pins
                return (await (pins.pin if pinned else pins.unpin)(path, author),)
            case ResumeRequest():
                await self._report_open_turn()
            case _:
                assert_never(request)
        return None

    async def _deliver(self, turns: TurnRunner, message: IncomingMessage) -> SendReceipt:
        """Add the message to the running turn; if none runs, open one with it."""
        if message.kind == COMPACT_EVENT:
            return await self._request_compaction(turns, message)
        _check_output(turns.session, message)
        if message.form:
            text = await form_answer_text(turns.session, CallId(message.form), message.text)
            message = msgspec.structs.replace(message, text=text, mime="application/json")
        event = to_external_event(turns.session, message)
        entry, status = await add_to_turn(turns.inbox, message, event)
        if entry:
            return await self._accept(entry, status)
        if event:
            return await self._open_turn(turns, message, event)
        if status == "cancelled" or (status == "steered" and not message.text):
            if status == "steered" and self._is_compacting(turns):
                (request,) = await turns.session.entries([turns.session.views.compactions.pending[0].seq])
                return self._to_receipt(request, status)
            raise CodedError("turn_not_running", f"no turn of {self.conversation} is running")
        return await self._open_turn(turns, message)

    async def _request_compaction(self, turns: TurnRunner, message: IncomingMessage) -> SendReceipt:
        entry = await turns.inbox.request_compaction(message.text, message.keep, message.request_id, message.author)
        views = turns.session.views
        if not any(one.seq == entry.seq for one in views.compactions.pending):
            return self._to_receipt(entry, "compacted")
        return await self._accept(entry, "queued" if views.progress.running else "compacting")

    def _require_session(self) -> TurnRunner:
        assert self._turn_runner, "the session is opened before a request is handled"
        return self._turn_runner

    async def _open(self, header: ConversationStarted | None) -> None:
        try:
            turns = await self._opener(self.conversation, header, self._citations.feed)
        except BaseException:
            await self._advance(LeaseLost())
            raise
        finally:
            self._failed_status = None
        turns.session.listen(self._on_stored)
        turns.session.watch(self._on_entry)
        turns.context_fitter.listen(lambda compaction: self.broadcaster.publish(to_compaction_event(compaction)))
        self._turn_runner = turns
        self.unfollow()
        if header is None:
            # The session does not publish entries that another process wrote before.
            self.broadcaster.publish(StoreTail(turns.session.views.tail))

    @asynccontextmanager
    async def _release_on_error(self) -> AsyncGenerator[None]:
        """Release the conversation if storing it fails, because its views no longer match the store."""
        try:
            yield
        except Exception:
            await self._advance(LeaseLost())
            raise

    async def _open_turn(
        self, turns: TurnRunner, message: IncomingMessage, event: ExternalEvent | None = None
    ) -> SendReceipt:
        # While a compaction runs, its task takes up this turn afterwards; a sender does not wait for a summary.
        compacting = self._is_compacting(turns)
        if not compacting:
            # The previous turn has ended, but its task may still be finishing and must not pick up this turn.
            await self._wait_for_turn()
            turns = await self._reopen_if_outdated(turns)
        block = event or UserPrompt(text=message.text, author=message.author, quoted_roles=message.quoted_roles)
        async with self._release_on_error():
            entry = await turns.open_turn(block, message.files, message.output)
            if compacting:
                await turns.session.flush()
            await self._report_open_turn()
            await self._wait_stored(turns.session)
        return self._to_receipt(entry, "started")

    async def _reopen_if_outdated(self, turns: TurnRunner) -> TurnRunner:
        """Open the conversation again if its tools or rules have changed; raise if no turn may begin."""
        if not await turns.is_outdated():
            return turns
        await self._release()
        await self._open(None)
        return self._require_session()

    async def _wait_stored(self, session: Session) -> None:
        """Wait until the turn's first entries are stored, by its first step or, if it stops earlier, here."""
        durable = session.wait_until_durable()
        if self.task:
            await asyncio.wait({durable, self.task}, return_when=asyncio.FIRST_COMPLETED)
        if not durable.done():
            await session.flush()
        await durable

    async def _accept(self, entry: Entry, status: SendStatus) -> SendReceipt:
        await self._report_open_turn()
        return self._to_receipt(entry, status)

    async def _report_open_turn(self) -> None:
        """Start the turn task if a turn is open, or a compaction is requested, and no task runs it."""
        views = self._require_session().session.views
        if views.progress.running or views.compactions.pending:
            await self._advance(TurnOpened(self.task is not None, next(self._numbers)))

    async def _start_work(self, effect: StartTurnTask | ResumeOpenWork) -> None:
        """Start the turn task; after the last task, only for what it did not see, unless that waits for a person."""
        if isinstance(effect, StartTurnTask):
            turn = self._run_turn(self._require_session(), effect.task_no)
            self._task = asyncio.create_task(turn, name=f"turn of {self.conversation}")
        elif self._turn_runner and not pending_approvals(self._turn_runner.session.views.progress):
            await self._report_open_turn()

    def _is_compacting(self, turns: TurnRunner) -> bool:
        views = turns.session.views
        return self.task is not None and not views.progress.running and bool(views.compactions.pending)

    def _to_receipt(self, entry: Entry, status: SendStatus) -> SendReceipt:
        return SendReceipt(conversation_id=self.conversation, turn_id=entry.turn_id, seq=entry.seq, status=status)

    async def _run_turn(self, turns: TurnRunner, task_no: int) -> None:
        # Nothing may be awaited after the loop: a message sent then would find a task that no longer looks for it.
        where = {"conversation_id": self.conversation, "turn_id": turns.session.views.progress.turn_id}
        _logger.info("turn runs", extra={"fields": where})
        self._publish_status()
        try:
            outcome = await turns.resume()
        except CodedError as error:
            _logger.warning("turn failed", extra={"fields": {**where, "code": error.code}}, exc_info=error)
            shown = ChatError(code=error.code, message=str(error))
            self._inputs.report(
                LeaseLost(shown, task_no) if isinstance(error, LeaseLostError) else TurnStopped(task_no, shown)
            )
            if is_write_failure(error):
                self._write_recovery.on_write_failed(self.conversation)
        except Exception:
            _logger.exception("turn failed", extra={"fields": where})
            self._inputs.report(TurnStopped(task_no, ChatError(code="internal_error", message=INTERNAL_ERROR_TEXT)))
        else:
            if outcome == "waiting":
                _logger.info("turn waits", extra={"fields": where})
            else:
                _logger.info("turn ended", extra={"fields": {**where, "reason": outcome}})
            self._publish_status()
            self._inputs.report(TurnStopped(task_no))
            self._write_recovery.on_turn_stopped(self.conversation)

    def _publish(self, effect: PublishError | PublishStatus) -> None:
        if isinstance(effect, PublishError):
            self.broadcaster.publish(effect.error)
        else:
            self._publish_status()

    def _publish_status(self) -> None:
        if status := self.status:
            self._failed_status = status if self.has_failed else None
            self.broadcaster.publish(status)

    def _on_stored(self, entry: Entry) -> None:
        self.broadcaster.publish_entry(entry)
        self._write_recovery.on_stored()

    def _on_entry(self, entry: Entry) -> None:
        if isinstance(entry.block, ModelAnswered):
            # Before the answer is published, so that its deltas are complete.
            self._citations.close()

    def _sources(self) -> Mapping[int, SourceRow]:
        return self._turn_runner.session.views.sources.pool.rows if self._turn_runner else {}

    def _publish_delta(self, delta: LiveDelta) -> None:
        if self._turn_runner:
            views = self._turn_runner.session.views
            self.broadcaster.publish_delta(to_chat_delta(views.progress.turn_id, delta, views))

    async def _wait_for_turn(self) -> None:
        if self.task:
            await asyncio.wait({self.task})

    def _arm_idle_timer(self) -> None:
        self._cancel_idle_timer()
        timeout = IdleTimeout(next(self._numbers))
        self._idle_timer = asyncio.get_running_loop().call_later(self._rest_s, self._inputs.report, timeout)

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer:
            self._idle_timer.cancel()

    def _settle_title(self, settle_no: int) -> None:
        name = f"title of {self.conversation}"
        task = asyncio.create_task(self._ensure_title(self._require_session(), settle_no), name=name)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _ensure_title(self, turns: TurnRunner, settle_no: int) -> None:
        try:
            await turns.ensure_title()
        except Exception:
            _logger.exception("a title could not be generated")
        self._inputs.report(TitleSettled(settle_no))

    async def _release(self) -> None:
        """Release the conversation; a running turn is stopped and stays open on the timeline."""
        self._cancel_idle_timer()
        turns, self._turn_runner = self._turn_runner, None
        if turns is None:
            return
        try:
            if self.task:
                await cancel_and_wait(self.task)
            await turns.titles.stop()
        finally:
            # The next process that resumes the turn writes the partial text again.
            self._citations.close()
            self.broadcaster.drop_text()
            await self._close_session(turns.session)
            if not isinstance(self._state, IdleState):
                # Nothing reopens the conversation, so another process may run the turn.
                self._failed_status = None
            self.follow()

    async def _close_session(self, session: Session) -> None:
        try:
            await session.close()
        except StoreError as error:
            # Nothing depends on entries that were still pending: they are made again.
            fields = {"conversation_id": self.conversation, "code": error.code}
            _logger.warning("pending entries could not be stored", extra={"fields": fields})


def _receipt(reply: Reply) -> SendReceipt:
    assert isinstance(reply, SendReceipt)
    return reply


def _check_output(session: Session, message: IncomingMessage) -> None:
    """Raise if the message wants another form of answer than the running turn has."""
    if message.output and session.views.progress.running and session.views.turns.output != message.output:
        raise CodedError(
            "output_conflict", "the running turn has another output schema; send the message after its end"
        )
