"""A seat: one conversation as this process has it open, with the task that runs its turns and all who read it."""

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

INTERNAL: Final = "the turn stopped at an unexpected error; it is open and goes on with the next message"

USER: Final = "user"
"""Whoever the conversation belongs to, as the author of what they say there."""

GONE: Final = ChatError(code="conversation_unknown", message="the conversation was deleted")

Said = Literal["started", "followup", "steered", "told", "cancelled", "decided"]
"""What became of what was sent: it opened a turn, or the running one has it."""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent is on the timeline."""

    conversation_id: ConversationId
    turn_id: TurnId
    seq: int
    status: Said

    @property
    def before(self) -> int:
        """The last entry before it, and before the turn's header where it opens one."""
        return self.seq - (2 if self.status == "started" else 1)


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody sent to a conversation: a message, or an event of some kind."""

    kind: str = "followup"
    text: str = ""
    by: str = "external"
    author: str = USER
    """Whose words a message is."""
    mime: str = "text/markdown"
    started_ts: str = ""
    """When it began, as they say; empty where that is now."""
    files: tuple[TextFile, ...] = ()


class Opening(Protocol):
    """Opens a conversation for who runs its turns; with a header, a new one. Raises `HeldError`."""

    async def __call__(
        self, conversation: ConversationId, header: ConversationStarted | None, hear: Callable[[LiveDelta], None]
    ) -> Turns: ...


class LiveConversation:
    """One conversation: what is sent to it goes one after the other, and one task at a time runs its turns."""

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
        """Who is using it right now: requests and readers."""
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
        """Whether nobody needs it."""
        return not self.visitors and self._turns is None and self._leaving is None

    @property
    def turns(self) -> Turns | None:
        """What runs the turns, while the conversation is open here."""
        return self._turns

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The task that runs a turn, while there is one."""
        return self._task if self._task and not self._task.done() else None

    @property
    def has_failed(self) -> bool:
        """Whether the last turn stopped at an error, and goes on with what is sent next."""
        return self._failed

    async def begin(self, header: ConversationStarted) -> None:
        """Opens the conversation as a new one."""
        async with self._lock:
            turns = await self._opened(header)
            async with self._kept():
                await turns.session.flush()

    async def begin_with(self, header: ConversationStarted, sent: Sent) -> Accepted:
        """Opens the conversation as a new one that begins with this message."""
        async with self._lock:
            turns = await self._opened(header)
            return await self._begin_turn(turns, UserPrompt(text=sent.text, author=sent.author), sent.files)

    async def say(self, sent: Sent) -> Accepted:
        """A message: it opens a turn, or is a follow-up of the one that runs."""
        async with self._lock:
            turns = await self._opened()
            if said := await turns.inbox.follow_up(sent.text, sent.files, sent.started_ts, sent.author):
                return self._accepted(said, "followup")
            return await self._begin_turn(turns, UserPrompt(text=sent.text, author=sent.author), sent.files)

    async def steer(self, sent: Sent) -> Accepted:
        """Another course for the running turn, or its end where there is no text; what it misses opens the next."""
        async with self._lock:
            turns = await self._opened()
            if said := await turns.inbox.steer(sent.text, sent.files, sent.started_ts, sent.author):
                return self._accepted(said, "steered")
            if not sent.text:
                raise _not_running(self.conversation)
            return await self._begin_turn(turns, UserPrompt(text=sent.text, author=sent.author), sent.files)

    async def cancel(self, by: str, text: str) -> Accepted:
        """Ends the running turn from outside."""
        async with self._lock:
            turns = await self._opened()
            if said := await turns.inbox.cancel(by, text):
                return self._accepted(said, "cancelled")
            raise _not_running(self.conversation)

    async def tell(self, sent: Sent) -> Accepted:
        """Any other event: the running turn has it, or it opens one."""
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
        """A person's answer to what the turn waits for, after which it goes on."""
        async with self._lock:
            turns = await self._opened()
            if said := await turns.inbox.decide(call_id, approved, by, text):
                return self._accepted(said, "decided")
            raise CodedError("approval_unknown", f"nothing waits for a decision on the call {call_id[:60]!r}")

    async def append(self, blocks: Sequence[AnyBlock], turn_id: TurnId) -> tuple[Entry, ...]:
        """Puts blocks on the timeline that no turn has to be run for."""
        async with self._lock:
            turns = await self._opened()
            return await turns.session.append(blocks, turn_id)

    async def go_on(self) -> None:
        """Goes on with a turn that was left open, and returns once it has ended or waits."""
        async with self._lock:
            self._run(await self._opened())
        await self._rested()

    @asynccontextmanager
    async def released(self, *, parks: bool) -> AsyncGenerator[None]:
        """The conversation is nobody's for as long as this lasts; a running turn refuses that, or is left as it is."""
        async with self._lock:
            if self.task and not parks:
                raise CodedError("turn_open", "a turn is running; stop it first")
            await self._park()
            yield

    async def close(self, why: ChatError) -> None:
        """Leaves a running turn as it is, lets go of the conversation, and ends all streams."""
        self._closed = why
        self.channel.end(why)
        if self._turns:
            # Whoever leaves just now waits for a title.
            await self._turns.titles.give_up()
        async with self._lock:
            await self._park()
        await _ended(self._leaving)
        await _ended(self._follower, cancel=True)

    def follow(self) -> None:
        """Sees to it that readers hear of what other processes write, while the conversation is not open here."""
        follows = self._follower and not self._follower.done()
        if self._turns is None and not follows and self.channel.has_readers:
            self._follower = asyncio.create_task(self._followed(), name=f"following {self.conversation}")

    def unfollow(self) -> None:
        """Ends that where nobody reads any more, or where the conversation is open here."""
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
                # What another process wrote before is not told by the session.
                self.channel.tell(Tail(turns.session.views.tail))
        self._rest_later()
        return self._turns

    @asynccontextmanager
    async def _kept(self) -> AsyncGenerator[None]:
        """Lets go of a conversation that could not be stored as it is here."""
        try:
            yield
        except Exception:
            await self._park()
            raise

    async def _begin_turn(self, turns: Turns, block: UserPrompt | ExternalEvent, files: Sequence[TextFile]) -> Accepted:
        # The turn before has ended; what is left of its task must not take this one for its own.
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
        """What began a turn is stored with the turn's first step, or here where it stops before that."""
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
        """Starts the task where none runs; one that runs sees what is new before it ends."""
        if not self.task and turns.session.views.progress.running:
            self._task = asyncio.create_task(self._turn(turns), name=f"turn of {self.conversation}")

    async def _turn(self, turns: Turns) -> None:
        # Nothing may be awaited after the loop: what is sent then would find a task that does not look any more.
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
            # Before the answer is told, so that its deltas are whole.
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
            # Before the lock: a message does not wait for a title.
            await self._turns.settle()
        async with self._lock:
            if not self.task:
                await self._park()

    def _left(self, task: asyncio.Task[None]) -> None:
        self._leaving = None
        if not task.cancelled() and (error := task.exception()):
            _logger.error("a conversation could not be left", exc_info=error)
        self._on_empty(self)

    async def _park(self) -> None:
        """Lets go of the conversation; a turn that runs stays open on the timeline."""
        if self._resting:
            self._resting.cancel()
        turns, self._turns, self._failed = self._turns, None, False
        if turns is None:
            return
        try:
            await _ended(self.task, cancel=True)
            await turns.titles.give_up()
        finally:
            # What was being written is written anew, by whoever goes on.
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
    """Waits for the end of the task, whatever it is."""
    if task:
        if cancel:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})


def _not_running(conversation: ConversationId) -> CodedError:
    return CodedError("turn_not_running", f"no turn of {conversation} is running")


Work = Callable[[LiveConversation], Awaitable[Accepted]]
"""What is done at a seat."""
