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
from timeloom.runtime.hub.events import ChatDelta, ChatError, compaction_of, status_of
from timeloom.runtime.hub.live_citations import Citing
from timeloom.runtime.hub.subscription import Channel, Tail
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.attachments import TextFile, attach
from timeloom.runtime.turn.inbox import attach_to
from timeloom.runtime.turn.loop import Turns

_logger = logging.getLogger(__name__)

INTERNAL: Final = "The turn failed unexpectedly. Send another message to resume it."

USER: Final = "user"
"""The author of messages by the conversation's owner."""

GONE: Final = ChatError(code="conversation_unknown", message="the conversation was deleted")

Said = Literal["started", "followup", "steered", "told", "cancelled", "decided"]
"""How a message or event was handled: it opened a turn, or it was added to the running one."""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of a message or event that is on the timeline."""

    conversation_id: ConversationId
    turn_id: TurnId
    seq: int
    status: Said

    @property
    def before(self) -> int:
        """The seq of the last entry before it; if it opened a turn, before that turn's first entry."""
        return self.seq - (2 if self.status == "started" else 1)


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A message or an event of some kind that was sent to a conversation."""

    kind: str = "followup"
    text: str = ""
    by: str = "external"
    author: str = USER
    """The author of a message."""
    mime: str = "text/markdown"
    started_ts: str = ""
    """When it began, according to the sender; empty means now."""
    files: tuple[TextFile, ...] = ()


class Opening(Protocol):
    """Opens a conversation, or starts one if a header is given, and returns its turn runner.

    Raises `ConversationHeldError` if another process holds the conversation.
    """

    async def __call__(
        self, conversation: ConversationId, header: ConversationStarted | None, hear: Callable[[LiveDelta], None]
    ) -> Turns: ...


class LiveConversation:
    """One open conversation: messages are handled one at a time, and at most one task runs its turns."""

    def __init__(
        self,
        conversation: ConversationId,
        store: Store,
        opening: Opening,
        rest_s: float,
        on_empty: Callable[["LiveConversation"], None],
    ) -> None:
        self.conversation = conversation
        self.channel = Channel()
        self.visitors = 0
        """The number of requests and readers that use it now."""
        self._store = store
        self._opening = opening
        self._rest_s = rest_s
        self._on_empty = on_empty
        self._lock = asyncio.Lock()
        self._turns: Turns | None = None
        self._citing = Citing(self._sources, self._tell_delta)
        self._task: asyncio.Task[None] | None = None
        self._failed = False
        self._closed: ChatError | None = None
        self._resting: asyncio.TimerHandle | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it has no users, no open session and no release in progress."""
        return not self.visitors and self._turns is None and self._leaving is None

    @property
    def turns(self) -> Turns | None:
        """The turn runner while the conversation is open in this process, else None."""
        return self._turns

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The task that runs a turn, or None."""
        return self._task if self._task and not self._task.done() else None

    @property
    def has_failed(self) -> bool:
        """Whether the last turn stopped at an error; the next message resumes it."""
        return self._failed

    async def begin(self, header: ConversationStarted) -> None:
        """Create the conversation without messages."""
        async with self._lock:
            turns = await self._opened(header)
            async with self._kept():
                await turns.session.flush()

    async def begin_with(self, header: ConversationStarted, sent: Sent) -> Accepted:
        """Create the conversation and open its first turn with this message."""
        async with self._lock:
            turns = await self._opened(header)
            return await self._begin_turn(turns, UserPrompt(text=sent.text, author=sent.author), sent.files)

    async def say(self, sent: Sent) -> Accepted:
        """Handle a message: it becomes a follow-up of the running turn, or opens a turn."""
        async with self._lock:
            turns = await self._opened()
            if said := await turns.inbox.follow_up(sent.text, sent.files, sent.started_ts, sent.author):
                return self._accepted(said, "followup")
            return await self._begin_turn(turns, UserPrompt(text=sent.text, author=sent.author), sent.files)

    async def steer(self, sent: Sent) -> Accepted:
        """Redirect the running turn; empty text stops it. If no turn runs, the text opens one."""
        async with self._lock:
            turns = await self._opened()
            if said := await turns.inbox.steer(sent.text, sent.files, sent.started_ts, sent.author):
                return self._accepted(said, "steered")
            if not sent.text:
                raise _not_running(self.conversation)
            return await self._begin_turn(turns, UserPrompt(text=sent.text, author=sent.author), sent.files)

    async def cancel(self, by: str, text: str) -> Accepted:
        """Cancel the running turn from outside."""
        async with self._lock:
            turns = await self._opened()
            if said := await turns.inbox.cancel(by, text):
                return self._accepted(said, "cancelled")
            raise _not_running(self.conversation)

    async def tell(self, sent: Sent) -> Accepted:
        """Handle any other event: it is added to the running turn, or opens one."""
        async with self._lock:
            turns = await self._opened()
            event = ExternalEvent(
                kind=sent.kind,
                message_id=turns.session.new_message_id(),
                text=sent.text,
                mime=sent.mime,
                started_ts=sent.started_ts,
                author=sent.by,
            )
            if said := await turns.inbox.tell(event, sent.files):
                return self._accepted(said, "told")
            return await self._begin_turn(turns, event, sent.files)

    async def decide(self, call_id: CallId, approved: bool, by: str, text: str) -> Accepted:
        """Record a person's decision on a requested approval and resume the turn."""
        async with self._lock:
            turns = await self._opened()
            if said := await turns.inbox.decide(call_id, approved, by, text):
                return self._accepted(said, "decided")
            raise CodedError("approval_unknown", f"no approval is pending for the call {call_id[:60]!r}")

    async def append(self, blocks: Sequence[AnyBlock], turn_id: TurnId) -> tuple[Entry, ...]:
        """Append blocks that need no turn."""
        async with self._lock:
            turns = await self._opened()
            return await turns.session.append(blocks, turn_id)

    async def go_on(self) -> None:
        """Resume an open turn; return once it has ended or waits for a person."""
        async with self._lock:
            self._run(await self._opened())
        await self._rested()

    @asynccontextmanager
    async def released(self, *, parks: bool) -> AsyncGenerator[None]:
        """Release the lease while the context lasts; a running turn raises `turn_open`, unless `stops_turn` is set."""
        async with self._lock:
            if self.task and not parks:
                raise CodedError("turn_open", "a turn is running; stop it first")
            await self._park()
            yield

    async def close(self, why: ChatError) -> None:
        """Stop a running turn, which stays open on the timeline, release the conversation and end all streams."""
        self._closed = why
        self.channel.end(why)
        if self._turns:
            # An idle release in progress may be waiting for a title.
            await self._turns.titles.give_up()
        async with self._lock:
            await self._park()
        await _ended(self._leaving)
        await _ended(self._follower, cancel=True)

    def follow(self) -> None:
        """Forward entries that other processes write to the readers, while the conversation is not open here."""
        follows = self._follower and not self._follower.done()
        if self._turns is None and not follows and self.channel.has_readers:
            self._follower = asyncio.create_task(self._followed(), name=f"following {self.conversation}")

    def unfollow(self) -> None:
        """Stop following if no readers are left, or if the conversation is open here."""
        if self._follower and (self._turns or not self.channel.has_readers):
            self._follower.cancel()
            self._follower = None

    async def _opened(self, header: ConversationStarted | None = None) -> Turns:
        if self._closed:
            raise CodedError(self._closed.code, self._closed.message)
        if self._failed:
            await self._park()
        if self._turns is None:
            turns = await self._opening(self.conversation, header, self._citing.hear)
            turns.session.listen(self.channel.entry)
            turns.session.watch(self._watch)
            turns.room.listen(lambda compaction: self.channel.tell(compaction_of(compaction)))
            self._turns = turns
            self.unfollow()
            if header is None:
                # The session does not publish entries that another process wrote before.
                self.channel.tell(Tail(turns.session.views.tail))
        self._rest_later()
        return self._turns

    @asynccontextmanager
    async def _kept(self) -> AsyncGenerator[None]:
        """Release the conversation if storing it fails, because its views no longer match the store."""
        try:
            yield
        except Exception:
            await self._park()
            raise

    async def _begin_turn(self, turns: Turns, block: UserPrompt | ExternalEvent, files: Sequence[TextFile]) -> Accepted:
        # The previous turn has ended, but its task may still be finishing and must not pick up this turn.
        await self._rested()
        await turns.titles.give_up()
        session = turns.session
        started, turn = TurnStarted(n=len(session.views.turns.turns) + 1), session.new_turn_id()
        pool = session.views.sources.pool
        if isinstance(block, ExternalEvent):
            attached = attach_to(block, files, turn, pool)
        else:
            attached = attach(files, lambda name: AttachmentPath(turn, name), pool)
        async with self._kept():
            _, said, *_ = await session.append_deferred([started, block, *attached], turn)
            self._run(turns)
            await self._stored(session)
        return self._told(said, "started")

    async def _stored(self, session: Session) -> None:
        """Wait until the turn's first entries are stored, by its first step or, if it stops earlier, here."""
        settled = session.settled()
        if self.task:
            await asyncio.wait({settled, self.task}, return_when=asyncio.FIRST_COMPLETED)
        if not settled.done():
            await session.flush()
        await settled

    def _accepted(self, said: Entry, status: Said) -> Accepted:
        if self._turns:
            self._run(self._turns)
        return self._told(said, status)

    def _told(self, said: Entry, status: Said) -> Accepted:
        return Accepted(conversation_id=self.conversation, turn_id=said.turn_id, seq=said.seq, status=status)

    def _run(self, turns: Turns) -> None:
        """Start the turn task if none runs; a running task notices new entries before it ends."""
        if not self.task and turns.session.views.progress.running:
            self._task = asyncio.create_task(self._turn(turns), name=f"turn of {self.conversation}")

    async def _turn(self, turns: Turns) -> None:
        # Nothing may be awaited after the loop: a message sent then would find a task that no longer looks for it.
        where = {"conversation_id": self.conversation, "turn_id": turns.session.views.progress.turn_id}
        _logger.info("turn runs", extra={"fields": where})
        self.channel.tell(status_of(self.conversation, turns.session.views))
        try:
            pause = await turns.go_on()
        except CodedError as error:
            _logger.warning("turn failed", extra={"fields": {**where, "code": error.code}}, exc_info=error)
            self._fail(ChatError(code=error.code, message=str(error)))
        except Exception:
            _logger.exception("turn failed", extra={"fields": where})
            self._fail(ChatError(code="internal_error", message=INTERNAL))
        else:
            if pause == "waiting":
                _logger.info("turn waits", extra={"fields": where})
            else:
                _logger.info("turn ended", extra={"fields": {**where, "reason": pause}})
            self.channel.tell(status_of(self.conversation, turns.session.views))
        self._rest_later()

    def _fail(self, error: ChatError) -> None:
        self._failed = True
        self.channel.tell(error)

    def _watch(self, entry: Entry) -> None:
        if isinstance(entry.block, ModelAnswered):
            # Before the answer is published, so that its deltas are complete.
            self._citing.close()

    def _sources(self) -> Mapping[int, SourceRow]:
        return self._turns.session.views.sources.pool.rows if self._turns else {}

    def _tell_delta(self, delta: LiveDelta) -> None:
        if self._turns:
            turn = self._turns.session.views.progress.turn_id
            self.channel.delta(ChatDelta(turn_id=turn, channel=delta.channel, index=delta.index, text=delta.text))

    async def _rested(self) -> None:
        if self.task:
            await asyncio.wait({self.task})

    def _rest_later(self) -> None:
        if self._resting:
            self._resting.cancel()
        self._resting = asyncio.get_running_loop().call_later(self._rest_s, self._rest)

    def _rest(self) -> None:
        if not self._leaving and self._turns and not self.task:
            self._leaving = asyncio.create_task(self._leave(), name=f"leaving {self.conversation}")
            self._leaving.add_done_callback(self._left)

    async def _leave(self) -> None:
        if self._turns:
            # Before taking the lock, so that a message does not wait for a title.
            await self._turns.settle()
        async with self._lock:
            if not self.task:
                await self._park()

    def _left(self, task: asyncio.Task[None]) -> None:
        self._leaving = None
        if not task.cancelled() and (error := task.exception()):
            _logger.error("an idle conversation could not be released", exc_info=error)
        self._on_empty(self)

    async def _park(self) -> None:
        """Release the conversation; a running turn is stopped and stays open on the timeline."""
        if self._resting:
            self._resting.cancel()
        turns, self._turns, self._failed = self._turns, None, False
        if turns is None:
            return
        try:
            await _ended(self.task, cancel=True)
            await turns.titles.give_up()
        finally:
            # The next process that resumes the turn writes the partial text again.
            self._citing.close()
            self.channel.forget_text()
            await turns.session.close()
            self.follow()

    async def _followed(self) -> None:
        try:
            tail = (await self._store.info(self.conversation)).tail
            self.channel.tell(Tail(tail))
            async for entry in self._store.follow(self.conversation, after=tail):
                self.channel.entry(entry)
            self.channel.end(GONE)
        except CodedError as error:
            self.channel.end(ChatError(code=error.code, message=str(error)))


async def _ended(task: asyncio.Task[None] | None, *, cancel: bool = False) -> None:
    """Wait until the task has finished, with any outcome."""
    if task:
        if cancel:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})


def _not_running(conversation: ConversationId) -> CodedError:
    return CodedError("turn_not_running", f"no turn of {conversation} is running")


Work = Callable[[LiveConversation], Awaitable[Accepted]]
"""An operation on a live conversation."""
