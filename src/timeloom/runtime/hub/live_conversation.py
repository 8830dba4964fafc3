"""One conversation that is open in this process: the task that runs its turns, and its readers."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal, Protocol

import msgspec

from timeloom.core.blocks import AnyBlock, ConversationStarted, ExternalEvent, ModelAnswered, TurnStarted, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.paths import AttachmentPath
from timeloom.core.sources import SourceRow
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.timeline import Entry
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import ChatDelta, ChatError, to_compaction_event, to_status
from timeloom.runtime.hub.live_citations import LiveCitationRewriter
from timeloom.runtime.hub.subscription import Broadcaster, StoreTail
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.attachments import IncomingFile, attach_files
from timeloom.runtime.turn.inbox import attach_to_event
from timeloom.runtime.turn.loop import TurnRunner

_logger = logging.getLogger(__name__)

INTERNAL_ERROR_TEXT: Final = "The turn failed unexpectedly. Send another message to resume it."

USER: Final = "user"
"""The author of messages by the conversation's owner."""

DELETED: Final = ChatError(code="conversation_unknown", message="the conversation was deleted")

SendStatus = Literal["started", "followup", "steered", "told", "cancelled", "decided"]
"""How a message or event was handled: it opened a turn, or it was added to the running one."""


class SendReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of a message or event that is on the timeline."""

    conversation_id: ConversationId
    turn_id: TurnId
    seq: int
    status: SendStatus

    @property
    def before_seq(self) -> int:
        """The seq of the last entry before it; if it opened a turn, before that turn's first entry."""
        return self.seq - (2 if self.status == "started" else 1)


class IncomingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message or an event of some kind that was sent to a conversation."""

    kind: str = "followup"
    text: str = ""
    by: str = "external"
    author: str = USER
    """The author of a message."""
    mime: str = "text/markdown"
    started_ts: str = ""
    """When it began, according to the sender; empty means now."""
    files: tuple[IncomingFile, ...] = ()


class ConversationOpener(Protocol):
    """Opens a conversation, or starts one if a header is given, and returns its turn runner.

    Raises `ConversationHeldError` if another process holds the conversation.
    """

    async def __call__(
        self, conversation: ConversationId, header: ConversationStarted | None, hear: Callable[[LiveDelta], None]
    ) -> TurnRunner: ...


class LiveConversation:
    """One open conversation: messages are handled one at a time, and at most one task runs its turns."""

    def __init__(
        self,
        conversation: ConversationId,
        store: Store,
        opener: ConversationOpener,
        rest_s: float,
        on_empty: Callable[["LiveConversation"], None],
    ) -> None:
        self.conversation = conversation
        self.broadcaster = Broadcaster()
        self.user_count = 0
        """The number of requests and readers that use it now."""
        self._store = store
        self._opener = opener
        self._rest_s = rest_s
        self._on_empty = on_empty
        self._lock = asyncio.Lock()
        self._turn_runner: TurnRunner | None = None
        self._citations = LiveCitationRewriter(self._sources, self._publish_delta)
        self._task: asyncio.Task[None] | None = None
        self._failed = False
        self._close_error: ChatError | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_release: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it has no users, no open session and no release in progress."""
        return not self.user_count and self._turn_runner is None and self._idle_release is None

    @property
    def turn_runner(self) -> TurnRunner | None:
        """The turn runner while the conversation is open in this process, else None."""
        return self._turn_runner

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The task that runs a turn, or None."""
        return self._task if self._task and not self._task.done() else None

    @property
    def has_failed(self) -> bool:
        """Whether the last turn stopped at an error; the next message resumes it."""
        return self._failed

    async def create(self, header: ConversationStarted) -> None:
        """Create the conversation without messages."""
        async with self._lock:
            turns = await self._open(header)
            async with self._release_on_error():
                await turns.session.flush()

    async def create_with_message(self, header: ConversationStarted, message: IncomingMessage) -> SendReceipt:
        """Create the conversation and open its first turn with this message."""
        async with self._lock:
            turns = await self._open(header)
            return await self._begin_turn(turns, UserPrompt(text=message.text, author=message.author), message.files)

    async def send_message(self, message: IncomingMessage) -> SendReceipt:
        """Handle a message: it becomes a follow-up of the running turn, or opens a turn."""
        async with self._lock:
            turns = await self._open()
            if entry := await turns.inbox.follow_up(message.text, message.files, message.started_ts, message.author):
                return self._accept(entry, "followup")
            return await self._begin_turn(turns, UserPrompt(text=message.text, author=message.author), message.files)

    async def steer(self, message: IncomingMessage) -> SendReceipt:
        """Redirect the running turn; empty text stops it. If no turn runs, the text opens one."""
        async with self._lock:
            turns = await self._open()
            if entry := await turns.inbox.steer(message.text, message.files, message.started_ts, message.author):
                return self._accept(entry, "steered")
            if not message.text:
                raise _not_running_error(self.conversation)
            return await self._begin_turn(turns, UserPrompt(text=message.text, author=message.author), message.files)

    async def cancel(self, by: str, text: str) -> SendReceipt:
        """Cancel the running turn from outside."""
        async with self._lock:
            turns = await self._open()
            if entry := await turns.inbox.cancel(by, text):
                return self._accept(entry, "cancelled")
            raise _not_running_error(self.conversation)

    async def send_event(self, message: IncomingMessage) -> SendReceipt:
        """Handle any other event: it is added to the running turn, or opens one."""
        async with self._lock:
            turns = await self._open()
            event = ExternalEvent(
                kind=message.kind,
                message_id=turns.session.new_message_id(),
                text=message.text,
                mime=message.mime,
                started_ts=message.started_ts,
                author=message.by,
            )
            if entry := await turns.inbox.add_event(event, message.files):
                return self._accept(entry, "told")
            return await self._begin_turn(turns, event, message.files)

    async def decide(self, call_id: CallId, approved: bool, by: str, text: str) -> SendReceipt:
        """Record a person's decision on a requested approval and resume the turn."""
        async with self._lock:
            turns = await self._open()
            if entry := await turns.inbox.decide(call_id, approved, by, text):
                return self._accept(entry, "decided")
            raise CodedError("approval_unknown", f"no approval is pending for the call {call_id[:60]!r}")

    async def append(self, blocks: Sequence[AnyBlock], turn_id: TurnId) -> tuple[Entry, ...]:
        """Append blocks that need no turn."""
        async with self._lock:
            turns = await self._open()
            return await turns.session.append(blocks, turn_id)

    async def resume_turn(self) -> None:
        """Resume an open turn; return once it has ended or waits for a person."""
        async with self._lock:
            self._start_turn_task(await self._open())
        await self._wait_for_turn()

    @asynccontextmanager
    async def release_temporarily(self, *, stops_turn: bool) -> AsyncGenerator[None]:
        """Release the lease while the context lasts; a running turn raises `turn_open`, unless `stops_turn` is set."""
        async with self._lock:
            if self.task and not stops_turn:
                raise CodedError("turn_open", "a turn is running; stop it first")
            await self._release()
            yield

    async def close(self, why: ChatError) -> None:
        """Stop a running turn, which stays open on the timeline, release the conversation and end all streams."""
        self._close_error = why
        self.broadcaster.end(why)
        if self._turn_runner:
            # An idle release in progress may be waiting for a title.
            await self._turn_runner.titles.stop()
        async with self._lock:
            await self._release()
        await _wait_finished(self._idle_release)
        await _wait_finished(self._follower, cancel=True)

    def follow(self) -> None:
        """Forward entries that other processes write to the readers, while the conversation is not open here."""
        follows = self._follower and not self._follower.done()
        if self._turn_runner is None and not follows and self.broadcaster.has_readers:
            self._follower = asyncio.create_task(self._follow_store(), name=f"following {self.conversation}")

    def unfollow(self) -> None:
        """Stop following if no readers are left, or if the conversation is open here."""
        if self._follower and (self._turn_runner or not self.broadcaster.has_readers):
            self._follower.cancel()
            self._follower = None

    async def _open(self, header: ConversationStarted | None = None) -> TurnRunner:
        if self._close_error:
            raise CodedError(self._close_error.code, self._close_error.message)
        if self._failed:
            await self._release()
        if self._turn_runner is None:
            turns = await self._opener(self.conversation, header, self._citations.feed)
            turns.session.listen(self.broadcaster.publish_entry)
            turns.session.watch(self._on_entry)
            turns.context_fitter.listen(lambda compaction: self.broadcaster.publish(to_compaction_event(compaction)))
            self._turn_runner = turns
            self.unfollow()
            if header is None:
                # The session does not publish entries that another process wrote before.
                self.broadcaster.publish(StoreTail(turns.session.views.tail))
        self._schedule_idle_release()
        return self._turn_runner

    @asynccontextmanager
    async def _release_on_error(self) -> AsyncGenerator[None]:
        """Release the conversation if storing it fails, because its views no longer match the store."""
        try:
            yield
        except Exception:
            await self._release()
            raise

    async def _begin_turn(
        self, turns: TurnRunner, block: UserPrompt | ExternalEvent, files: Sequence[IncomingFile]
    ) -> SendReceipt:
        # The previous turn has ended, but its task may still be finishing and must not pick up this turn.
        await self._wait_for_turn()
        await turns.titles.stop()
        session = turns.session
        started, turn = TurnStarted(n=len(session.views.turns.turns) + 1), session.new_turn_id()
        pool = session.views.sources.pool
        if isinstance(block, ExternalEvent):
            attached = attach_to_event(block, files, turn, pool)
        else:
            attached = attach_files(files, lambda name: AttachmentPath(turn, name), pool)
        async with self._release_on_error():
            _, entry, *_ = await session.append_deferred([started, block, *attached], turn)
            self._start_turn_task(turns)
            await self._wait_stored(session)
        return self._to_receipt(entry, "started")

    async def _wait_stored(self, session: Session) -> None:
        """Wait until the turn's first entries are stored, by its first step or, if it stops earlier, here."""
        durable = session.wait_until_durable()
        if self.task:
            await asyncio.wait({durable, self.task}, return_when=asyncio.FIRST_COMPLETED)
        if not durable.done():
            await session.flush()
        await durable

    def _accept(self, entry: Entry, status: SendStatus) -> SendReceipt:
        if self._turn_runner:
            self._start_turn_task(self._turn_runner)
        return self._to_receipt(entry, status)

    def _to_receipt(self, entry: Entry, status: SendStatus) -> SendReceipt:
        return SendReceipt(conversation_id=self.conversation, turn_id=entry.turn_id, seq=entry.seq, status=status)

    def _start_turn_task(self, turns: TurnRunner) -> None:
        """Start the turn task if none runs; a running task notices new entries before it ends."""
        if not self.task and turns.session.views.progress.running:
            self._task = asyncio.create_task(self._run_turn(turns), name=f"turn of {self.conversation}")

    async def _run_turn(self, turns: TurnRunner) -> None:
        # Nothing may be awaited after the loop: a message sent then would find a task that no longer looks for it.
        where = {"conversation_id": self.conversation, "turn_id": turns.session.views.progress.turn_id}
        _logger.info("turn runs", extra={"fields": where})
        self.broadcaster.publish(to_status(self.conversation, turns.session.views))
        try:
            outcome = await turns.resume()
        except CodedError as error:
            _logger.warning("turn failed", extra={"fields": {**where, "code": error.code}}, exc_info=error)
            self._fail(ChatError(code=error.code, message=str(error)))
        except Exception:
            _logger.exception("turn failed", extra={"fields": where})
            self._fail(ChatError(code="internal_error", message=INTERNAL_ERROR_TEXT))
        else:
            if outcome == "waiting":
                _logger.info("turn waits", extra={"fields": where})
            else:
                _logger.info("turn ended", extra={"fields": {**where, "reason": outcome}})
            self.broadcaster.publish(to_status(self.conversation, turns.session.views))
        self._schedule_idle_release()

    def _fail(self, error: ChatError) -> None:
        self._failed = True
        self.broadcaster.publish(error)

    def _on_entry(self, entry: Entry) -> None:
        if isinstance(entry.block, ModelAnswered):
            # Before the answer is published, so that its deltas are complete.
            self._citations.close()

    def _sources(self) -> Mapping[int, SourceRow]:
        return self._turn_runner.session.views.sources.pool.rows if self._turn_runner else {}

    def _publish_delta(self, delta: LiveDelta) -> None:
        if self._turn_runner:
            turn = self._turn_runner.session.views.progress.turn_id
            self.broadcaster.publish_delta(
                ChatDelta(turn_id=turn, channel=delta.channel, index=delta.index, text=delta.text)
            )

    async def _wait_for_turn(self) -> None:
        if self.task:
            await asyncio.wait({self.task})

    def _schedule_idle_release(self) -> None:
        if self._idle_timer:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(self._rest_s, self._start_idle_release)

    def _start_idle_release(self) -> None:
        if not self._idle_release and self._turn_runner and not self.task:
            self._idle_release = asyncio.create_task(self._release_idle(), name=f"leaving {self.conversation}")
            self._idle_release.add_done_callback(self._finish_idle_release)

    async def _release_idle(self) -> None:
        if self._turn_runner:
            # Before taking the lock, so that a message does not wait for a title.
            await self._turn_runner.ensure_title()
        async with self._lock:
            if not self.task:
                await self._release()

    def _finish_idle_release(self, task: asyncio.Task[None]) -> None:
        self._idle_release = None
        if not task.cancelled() and (error := task.exception()):
            _logger.error("an idle conversation could not be released", exc_info=error)
        self._on_empty(self)

    async def _release(self) -> None:
        """Release the conversation; a running turn is stopped and stays open on the timeline."""
        if self._idle_timer:
            self._idle_timer.cancel()
        turns, self._turn_runner, self._failed = self._turn_runner, None, False
        if turns is None:
            return
        try:
            await _wait_finished(self.task, cancel=True)
            await turns.titles.stop()
        finally:
            # The next process that resumes the turn writes the partial text again.
            self._citations.close()
            self.broadcaster.drop_text()
            await turns.session.close()
            self.follow()

    async def _follow_store(self) -> None:
        try:
            tail = (await self._store.info(self.conversation)).tail
            self.broadcaster.publish(StoreTail(tail))
            async for entry in self._store.follow(self.conversation, after=tail):
                self.broadcaster.publish_entry(entry)
            self.broadcaster.end(DELETED)
        except CodedError as error:
            self.broadcaster.end(ChatError(code=error.code, message=str(error)))


async def _wait_finished(task: asyncio.Task[None] | None, *, cancel: bool = False) -> None:
    """Wait until the task has finished, with any outcome."""
    if task:
        if cancel:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})


def _not_running_error(conversation: ConversationId) -> CodedError:
    return CodedError("turn_not_running", f"no turn of {conversation} is running")


LiveOperation = Callable[[LiveConversation], Awaitable[SendReceipt]]
"""An operation on a live conversation."""
