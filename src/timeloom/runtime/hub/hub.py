"""The hub: keeps conversations open in this process, runs their turns and streams their events to readers."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import AnyBlock, ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, TurnId, make_conversation_id
from timeloom.core.timeline import NO_TURN, Entry
from timeloom.core.view.progress import CANCEL
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.leases import HeldError
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import ChatError, ConvStatus, Event, status_of
from timeloom.runtime.hub.live_conversation import GONE, USER, Accepted, Opening, LiveConversation, Sent, Work
from timeloom.runtime.hub.subscription import Mailbox, Stream
from timeloom.runtime.session.load_views import load_views
from timeloom.runtime.turn.attachments import TextFile

PAGE: Final = 1000
"""Conversations with open turns listed per request to the store."""

CLOSING: Final = ChatError(
    code="server_closing", message="the server is shutting down; reconnect with the id of the last block"
)

Streaming = AbstractAsyncContextManager[tuple[Stream, AsyncGenerator[Event]]]
"""A context that yields a subscription and its events; leaving it ends the subscription."""

_logger = logging.getLogger(__name__)


class HubSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long conversations stay open, and the limits of their readers."""

    rest_s: float = 60.0
    """How long a conversation stays open after its last turn. Less reopens it more often; more blocks it for other
    processes."""
    grace_s: float = 3.0
    """How long running turns may continue while the hub closes; then they stop and stay open on the timeline."""
    reader_bytes: int = 1024 * 1024
    """Maximum bytes queued for one reader before its stream is ended."""
    beat_s: float = 15.0
    """Longest silence of a stream before a heartbeat. With more, proxies may close the connection."""
    recover_at_once: int = 8
    """Number of open turns resumed concurrently after a restart."""


class Hub:
    """Accepts messages and events, runs turns and provides event streams; use it as an async context manager."""

    def __init__(
        self, store: Store, opening: Opening, clock: Clock, ids: Ids, settings: HubSettings | None = None
    ) -> None:
        self._store = store
        self._opening = opening
        self._clock = clock
        self._ids = ids
        self._settings = settings or HubSettings()
        self._seats: dict[ConversationId, LiveConversation] = {}
        self._recovering: asyncio.Task[None] | None = None
        self._closing = False
        self._slow_readers = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_closing(self) -> bool:
        """Whether the hub is closing and rejects all requests."""
        return self._closing

    @property
    def conversations(self) -> tuple[ConversationId, ...]:
        """The conversations that are open in this process, or have a request or reader here."""
        return tuple(self._seats)

    @property
    def running(self) -> int:
        """The number of turns that run in this process."""
        return sum(seat.task is not None for seat in self._seats.values())

    @property
    def readers(self) -> int:
        """The number of readers of all conversations in this process."""
        return sum(seat.channel.readers for seat in self._seats.values())

    @property
    def slow_readers(self) -> int:
        """The number of readers whose streams were ended so far because they were too slow."""
        return self._slow_readers

    def recover(self) -> asyncio.Task[None]:
        """Start a task that resumes all open turns whose conversations no other process holds."""
        self._recovering = asyncio.create_task(self._recover(), name="recovering")
        return self._recovering

    async def begin(self, header: ConversationStarted, text: str, files: tuple[TextFile, ...] = ()) -> Accepted:
        """Start a new conversation with this message."""
        return await self._do(self._fresh(), lambda seat: seat.begin_with(header, Sent(text=text, files=files)))

    async def begin_heard(
        self, header: ConversationStarted, text: str, files: tuple[TextFile, ...] = ()
    ) -> tuple[Accepted, Streaming]:
        """Start a new conversation with this message; also return its stream, which the caller must enter."""
        sent = Sent(text=text, files=files)
        return await self._heard(self._fresh(), header.tenant, lambda seat: seat.begin_with(header, sent), is_new=True)

    async def say_heard(
        self, info: ConversationInfo, text: str, files: tuple[TextFile, ...] = (), author: str = USER
    ) -> tuple[Accepted, Streaming]:
        """Send a message as `send_message` does; also return the stream of its events, which the caller must enter."""
        sent = Sent(text=text, files=files, author=author)
        return await self._heard(info.id, info.tenant, lambda seat: seat.say(sent))

    async def found(self, header: ConversationStarted, conversation: ConversationId | None = None) -> ConversationInfo:
        """Create a conversation without messages, with the given id or a new one."""
        name = conversation or self._fresh()
        async with self._at(name) as seat:
            await seat.begin(header)
        return await self._store.info(name)

    async def say(
        self, conversation: ConversationId, text: str, files: tuple[TextFile, ...] = (), author: str = USER
    ) -> Accepted:
        """Send a message; it becomes a follow-up of a running turn, or opens a turn."""
        return await self._do(conversation, lambda seat: seat.say(Sent(text=text, files=files, author=author)))

    async def send(self, conversation: ConversationId, sent: Sent) -> Accepted:
        """Send an event: a follow-up, a steer, a cancellation, or an external event of any other kind."""
        match sent.kind:
            case "followup":
                return await self._do(conversation, lambda seat: seat.say(sent))
            case "steer":
                return await self._do(conversation, lambda seat: seat.steer(sent))
            case kind if kind == CANCEL:
                return await self._do(conversation, lambda seat: seat.cancel(sent.by, sent.text))
            case _:
                return await self._do(conversation, lambda seat: seat.tell(sent))

    async def decide(
        self, conversation: ConversationId, call_id: CallId, approved: bool, by: str, text: str = ""
    ) -> Accepted:
        """Record a person's decision on a requested approval and resume the turn."""
        return await self._do(conversation, lambda seat: seat.decide(call_id, approved, by, text))

    async def append(
        self, conversation: ConversationId, blocks: Sequence[AnyBlock], turn_id: TurnId = NO_TURN
    ) -> tuple[Entry, ...]:
        """Append blocks that need no turn, such as a title or feedback; raises `ConversationHeldError`."""
        async with self._at(conversation) as seat:
            return await seat.append(blocks, turn_id)

    async def status(self, conversation: ConversationId) -> ConvStatus:
        """Return the conversation's status, also if another process has it open."""
        seat = self._seats.get(conversation)
        if seat and seat.turns:
            status, is_left = status_of(conversation, seat.turns.session.views), seat.has_failed
        else:
            status = status_of(conversation, await load_views(self._store, conversation))
            is_left = status.state == "running" and not await self._store.is_held(conversation)
            if is_left:
                # The holder may have ended the turn just before it released the lease.
                status = status_of(conversation, await load_views(self._store, conversation))
        return replace(status, state="interrupted") if is_left and status.state == "running" else status

    def stream(self, info: ConversationInfo, after: int) -> Streaming:
        """Return a context with the events of the conversation after that entry."""
        if after > info.tail:
            raise CodedError("cursor_malformed", f"the last entry is {info.tail}; the cursor {after} is beyond it")
        self._need_open()
        return self._streamed(info, after)

    @asynccontextmanager
    async def released(self, conversation: ConversationId, *, parks: bool = False) -> AsyncGenerator[None]:
        """Release the conversation's lease while the context lasts.

        A running turn raises `turn_open`, unless `stops_turn` is set: then it is stopped and stays open.
        """
        async with self._at(conversation) as seat, seat.released(parks=parks):
            yield

    def deleted(self, conversation: ConversationId) -> None:
        """End the streams of a deleted conversation."""
        if seat := self._seats.get(conversation):
            seat.channel.end(GONE)

    def hang_up(self) -> None:
        """Reject new requests and end all streams; running turns continue until `close`."""
        self._closing = True
        for seat in self._seats.values():
            seat.channel.end(CLOSING)

    async def close(self) -> None:
        """Wait `grace_s` for running turns, then stop them; they stay open and are resumed at the next start."""
        self.hang_up()
        if self._recovering:
            self._recovering.cancel()
            await asyncio.wait({self._recovering})
        running = [seat.task for seat in self._seats.values() if seat.task]
        if running:
            await asyncio.wait(running, timeout=self._settings.grace_s)
        await asyncio.gather(*(seat.close(CLOSING) for seat in tuple(self._seats.values())))

    @asynccontextmanager
    async def _streamed(
        self, info: ConversationInfo, after: int
    ) -> AsyncGenerator[tuple[Stream, AsyncGenerator[Event]]]:
        async with self._at(info.id) as seat:
            with self._joined(seat) as mailbox:
                seat.follow()
                stream = Stream(self._store, info.tenant, info.id, mailbox, after)
                yield stream, self._events(stream, info.id)

    async def _heard(
        self, conversation: ConversationId, tenant: str, work: Work, *, is_new: bool = False
    ) -> tuple[Accepted, Streaming]:
        """Subscribe, then do the work, so that its events need not be read from the store."""
        async with AsyncExitStack() as stack:
            seat = await stack.enter_async_context(self._at(conversation))
            mailbox = stack.enter_context(self._joined(seat))
            mailbox.open()
            accepted = await work(seat)
            stream = Stream(self._store, tenant, conversation, mailbox, 0 if is_new else accepted.before)
            stream.join()
            return accepted, _handed_over(stack.pop_all(), stream, self._events(stream, conversation))

    @contextmanager
    def _joined(self, seat: LiveConversation) -> Generator[Mailbox]:
        mailbox = seat.channel.join(self._settings.reader_bytes)
        try:
            yield mailbox
        finally:
            seat.channel.leave(mailbox)
            self._slow_readers += mailbox.is_too_slow
            seat.unfollow()

    def _events(self, stream: Stream, conversation: ConversationId) -> AsyncGenerator[Event]:
        return stream.events(lambda: self.status(conversation), self._settings.beat_s)

    def _fresh(self) -> ConversationId:
        return make_conversation_id(self._clock.epoch_us() // 1000, self._ids.bits())

    def _need_open(self) -> None:
        if self._closing:
            raise CodedError(CLOSING.code, CLOSING.message)

    async def _do(self, conversation: ConversationId, work: Work) -> Accepted:
        async with self._at(conversation) as seat:
            return await work(seat)

    @asynccontextmanager
    async def _at(self, conversation: ConversationId) -> AsyncGenerator[LiveConversation]:
        self._need_open()
        seat = self._seats.get(conversation)
        if seat is None:
            rest_s = self._settings.rest_s
            seat = self._seats[conversation] = LiveConversation(conversation, self._store, self._opening, rest_s, self._forget)
        seat.visitors += 1
        try:
            yield seat
        finally:
            seat.visitors -= 1
            self._forget(seat)

    def _forget(self, seat: LiveConversation) -> None:
        if seat.is_empty and self._seats.get(seat.conversation) is seat:
            del self._seats[seat.conversation]

    async def _recover(self) -> None:
        left: list[ConversationId] = []
        while page := await self._store.open_turns(after=left[-1] if left else "", limit=PAGE):
            left += page
        # All workers share one iterator: each takes the next conversation when it has finished one.
        names = iter(left)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._settings.recover_at_once):
                group.create_task(self._recover_each(names))

    async def _recover_each(self, names: Iterator[ConversationId]) -> None:
        for conversation in names:
            try:
                async with self._at(conversation) as seat:
                    await seat.go_on()
            except HeldError as error:
                _logger.info(
                    "open turn skipped, another process holds the conversation",
                    extra={"fields": {"conversation_id": conversation, "holder": error.by}},
                )
            except CodedError as error:
                _logger.warning(
                    "open turn cannot be resumed",
                    extra={"fields": {"conversation_id": conversation, "code": error.code}},
                )


@asynccontextmanager
async def _handed_over(
    stack: AsyncExitStack, stream: Stream, events: AsyncGenerator[Event]
) -> AsyncGenerator[tuple[Stream, AsyncGenerator[Event]]]:
    async with stack:
        yield stream, events
