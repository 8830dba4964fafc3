"""The hub: keeps conversations open in this process, runs their turns and streams their events to readers."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Final, Self

import msgspec

from timeloom.core.blocks import AnyBlock, CompactionEnded, ConversationStarted
from timeloom.core.codes import CodedError
from timeloom.core.ids import CallId, ConversationId, MessageId, TurnId, make_call_id, make_conversation_id
from timeloom.core.timeline import NO_TURN, Entry
from timeloom.core.view.progress import ProgressView
from timeloom.core.view.views import Views
from timeloom.ports.clock import Clock
from timeloom.ports.ids import Ids
from timeloom.ports.leases import ConversationHeldError
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.store import Store, StoreError
from timeloom.runtime.hub.events import DELETED, ChatBlock, ChatError, ConvStatus, Event, as_interrupted, to_status
from timeloom.runtime.hub.live_conversation import ConversationOpener, LiveConversation
from timeloom.runtime.hub.state import COMPACT_EVENT, USER, IncomingMessage, SendReceipt
from timeloom.runtime.hub.subscription import SubscriberQueue, Subscription
from timeloom.runtime.hub.write_recovery import RETRY_DELAYS_S, WriteRecovery, is_write_failure
from timeloom.runtime.session.load_views import load_views
from timeloom.runtime.turn.attachments import IncomingFile

PAGE: Final = 1000
"""Conversations with open turns listed per request to the store."""

CLOSING: Final = ChatError(
    code="server_closing", message="the server is shutting down; reconnect with the id of the last block"
)

SubscriptionContext = AbstractAsyncContextManager[tuple[Subscription, AsyncGenerator[Event]]]
"""A context that yields a subscription and its events; leaving it ends the subscription."""

LiveOperation = Callable[[LiveConversation], Awaitable[SendReceipt]]
"""An operation on a live conversation."""

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
    resume_concurrency: int = 8
    """Number of open turns resumed concurrently after a restart."""
    write_probe_s: float = 1.0
    """Shortest time between two test writes after a failed one. With less, clients of `/ready` cause more writes."""
    write_retry_delays_s: tuple[float, ...] = RETRY_DELAYS_S
    """Seconds before each attempt to resume turns that stopped because the store could not be written."""


class Hub:
    """Accepts messages and events, runs turns and provides event streams; use it as an async context manager."""

    def __init__(
        self, store: Store, opener: ConversationOpener, clock: Clock, ids: Ids, settings: HubSettings | None = None
    ) -> None:
        self._store = store
        self._opener = opener
        self._clock = clock
        self._ids = ids
        self._settings = settings or HubSettings()
        self._live_conversations: dict[ConversationId, LiveConversation] = {}
        self._write_recovery = WriteRecovery(self._resume_interrupted, self._settings.write_retry_delays_s)
        self._resume_task: asyncio.Task[None] | None = None
        self._closing = False
        self._slow_readers = 0
        self._next_probe_us = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_closing(self) -> bool:
        """Whether the hub is closing and rejects all requests."""
        return self._closing

    @property
    def last_write_failed(self) -> bool:
        """Whether the last write of the store failed, for example because the disk is full."""
        return bool(self._store.write_failure)

    @property
    def conversations(self) -> tuple[ConversationId, ...]:
        """The conversations that are open in this process, or have a request or reader here."""
        return tuple(self._live_conversations)

    @property
    def running(self) -> int:
        """The number of turns that run in this process."""
        return sum(live.task is not None for live in self._live_conversations.values())

    @property
    def readers(self) -> int:
        """The number of readers of all conversations in this process."""
        return sum(live.broadcaster.readers for live in self._live_conversations.values())

    @property
    def slow_readers(self) -> int:
        """The number of readers whose streams were ended so far because they were too slow."""
        return self._slow_readers

    async def probe_failed_write(self) -> None:
        """If the last write failed, test whether the store can be written again, since no other write may come."""
        if self.last_write_failed and (now_us := self._clock.epoch_us()) >= self._next_probe_us:
            self._next_probe_us = now_us + int(self._settings.write_probe_s * 1_000_000)
            # The store remembers the failure.
            with suppress(StoreError):
                await self._store.probe_write()
                self._write_recovery.on_stored()

    def resume_open_turns(self) -> asyncio.Task[None]:
        """Start a task that resumes all open turns whose conversations no other process holds."""
        self._resume_task = asyncio.create_task(self._resume_all(), name="recovering")
        return self._resume_task

    async def start_conversation(
        self, header: ConversationStarted, text: str, files: tuple[IncomingFile, ...] = ()
    ) -> SendReceipt:
        """Start a new conversation with this message."""
        return await self._run_on(
            self._new_conversation_id(),
            lambda live: live.create_with_message(header, IncomingMessage(text=text, files=files)),
        )

    async def start_and_stream(
        self, header: ConversationStarted, text: str, files: tuple[IncomingFile, ...] = ()
    ) -> tuple[SendReceipt, SubscriptionContext]:
        """Start a new conversation with this message; also return its stream, which the caller must enter."""
        message, name = IncomingMessage(text=text, files=files), self._new_conversation_id()
        start = partial(self._run_on, name, lambda live: live.create_with_message(header, message))
        return await self._send_and_stream(name, header.tenant, start, is_new=True)

    async def send_message_and_stream(
        self, info: ConversationInfo, text: str, files: tuple[IncomingFile, ...] = (), author: str = USER
    ) -> tuple[SendReceipt, SubscriptionContext]:
        """Send a message as `send_message` does; also return the stream of its events, which the caller must enter."""
        return await self.send_and_stream(info, lambda: self.send_message(info.id, text, files, author))

    async def send_and_stream(
        self, info: ConversationInfo, send: Callable[[], Awaitable[SendReceipt]]
    ) -> tuple[SendReceipt, SubscriptionContext]:
        """Subscribe to the conversation, then call `send`; return its receipt and the stream of the events after it.

        The caller must enter the stream; otherwise its subscription keeps the conversation open.
        """
        return await self._send_and_stream(info.id, info.tenant, send)

    async def create_empty(
        self, header: ConversationStarted, conversation: ConversationId | None = None
    ) -> ConversationInfo:
        """Create a conversation without messages, with the given id or a new one."""
        name = conversation or self._new_conversation_id()
        async with self._use(name) as live:
            await live.create(header)
        return await self._store.info(name)

    async def send_message(
        self,
        conversation: ConversationId,
        text: str,
        files: tuple[IncomingFile, ...] = (),
        author: str = USER,
        quoted_roles: tuple[str, ...] = (),
        output: str = "",
    ) -> SendReceipt:
        """Send a message; it becomes a follow-up of a running turn, or opens a turn.

        `output` is the JSON schema of the answer. Raises `output_conflict` if the running turn has another one.
        """
        message = IncomingMessage(text=text, files=files, author=author, quoted_roles=quoted_roles, output=output)
        return await self._run_on(conversation, lambda live: live.deliver(message))

    async def send_event(self, conversation: ConversationId, message: IncomingMessage) -> SendReceipt:
        """Send an event: a follow-up, a steer, a cancellation, or an external event of any other kind."""
        return await self._run_on(conversation, lambda live: live.deliver(message))

    async def compact(
        self, conversation: ConversationId, *, focus: str = "", keep: int = 0, request_id: MessageId | None = None
    ) -> CompactionEnded:
        """Summarize the conversation before its newest `keep` rounds; wait for the outcome and return it.

        While a turn runs, this waits for its next round. A request with a known `request_id` is not repeated. Raises
        the error of a turn that stops meanwhile; the request stays recorded and is carried out later.
        """
        name = request_id or MessageId(make_call_id(self._ids.bits()))
        request = IncomingMessage(kind=COMPACT_EVENT, text=focus, keep=keep, request_id=name)
        receipt = await self.send_event(conversation, request)
        async with self.stream(await self._store.info(conversation), receipt.seq) as (_, events):
            async for event in events:
                match event:
                    case ChatBlock(seq=seq):
                        for entry in await self._store.load(conversation, seq - 1, 1):
                            if isinstance(entry.block, CompactionEnded) and entry.block.message_id == name:
                                return entry.block
                    case ChatError(code=code, message=message):
                        raise CodedError(code, message)
                    case _:
                        pass
        raise CodedError(CLOSING.code, CLOSING.message)

    async def decide(
        self, conversation: ConversationId, call_id: CallId, approved: bool, by: str, text: str = ""
    ) -> SendReceipt:
        """Record a person's decision on a requested approval and resume the turn."""
        return await self._run_on(conversation, lambda live: live.decide(call_id, approved, by, text))

    async def append(
        self, conversation: ConversationId, blocks: Sequence[AnyBlock], turn_id: TurnId = NO_TURN
    ) -> tuple[Entry, ...]:
        """Append blocks that need no turn, such as a title or feedback; raises `ConversationHeldError`."""
        async with self._use(conversation) as live:
            return await live.append(blocks, turn_id)

    async def pin(self, conversation: ConversationId, path: str, *, pinned: bool = True, author: str = USER) -> Entry:
        """Pin the blocks at the path, so that they survive pruning and compaction, or end their pin.

        Return the entry of the pin. Raises `pin_not_visible`, `pins_full` or `pin_unknown`.
        """
        async with self._use(conversation) as live:
            return await live.pin(path, pinned, author)

    def live_progress(self, conversation: ConversationId) -> tuple[ProgressView, bool] | None:
        """Return the progress of the newest turn and whether it stopped at an error; None if it is not open here."""
        live = self._live_conversations.get(conversation)
        return (live.turn_runner.session.views.progress, live.has_failed) if live and live.turn_runner else None

    async def read_views(self, conversation: ConversationId) -> Views:
        """Return the views of the conversation: the live ones if it is open here, which callers must not change."""
        live = self._live_conversations.get(conversation)
        if live and live.turn_runner:
            return live.turn_runner.session.views
        return await load_views(self._store, conversation)

    async def status(self, conversation: ConversationId) -> ConvStatus:
        """Return the conversation's status, also if another process has it open."""
        live = self._live_conversations.get(conversation)
        if status := live and live.status:
            return status
        return await self._stored_status(conversation, await load_views(self._store, conversation))

    def stream(self, info: ConversationInfo, after: int) -> SubscriptionContext:
        """Return a context with the events of the conversation after that entry."""
        if after > info.tail:
            raise CodedError("cursor_malformed", f"the last entry is {info.tail}; the cursor {after} is beyond it")
        self._require_open()
        return self._stream(info, after)

    @asynccontextmanager
    async def release_temporarily(
        self, conversation: ConversationId, *, stops_turn: bool = False
    ) -> AsyncGenerator[None]:
        """Release the conversation's lease while the context lasts.

        A running turn raises `turn_open`, unless `stops_turn` is set: then it is stopped and stays open.
        """
        async with self._use(conversation) as live, live.release_temporarily(stops_turn=stops_turn):
            yield

    def end_streams(self, conversation: ConversationId) -> None:
        """End the streams of a deleted conversation."""
        if live := self._live_conversations.get(conversation):
            live.broadcaster.end(DELETED)

    def stop_accepting(self) -> None:
        """Reject new requests and end all streams; running turns continue until `close`."""
        self._closing = True
        for live in self._live_conversations.values():
            live.broadcaster.end(CLOSING)

    async def close(self) -> None:
        """Wait `grace_s` for running turns, then stop them; they stay open and are resumed at the next start."""
        self.stop_accepting()
        await self._write_recovery.close()
        if self._resume_task:
            self._resume_task.cancel()
            await asyncio.wait({self._resume_task})
        running = [live.task for live in self._live_conversations.values() if live.task]
        if running:
            await asyncio.wait(running, timeout=self._settings.grace_s)
        await asyncio.gather(*(live.close(CLOSING) for live in tuple(self._live_conversations.values())))

    @asynccontextmanager
    async def _stream(
        self, info: ConversationInfo, after: int
    ) -> AsyncGenerator[tuple[Subscription, AsyncGenerator[Event]]]:
        async with self._use(info.id) as live:
            with self._join(live) as queue:
                live.follow()
                stream = Subscription(self._store, info.tenant, info.id, queue, after)
                yield stream, self._stream_events(stream, info.id)

    async def _send_and_stream(
        self,
        conversation: ConversationId,
        tenant: str,
        send: Callable[[], Awaitable[SendReceipt]],
        *,
        is_new: bool = False,
    ) -> tuple[SendReceipt, SubscriptionContext]:
        """Subscribe, then send, so that no event has to be read from the store."""
        async with AsyncExitStack() as stack:
            live = await stack.enter_async_context(self._use(conversation))
            queue = stack.enter_context(self._join(live))
            queue.open()
            accepted = await send()
            stream = Subscription(self._store, tenant, conversation, queue, 0 if is_new else accepted.before_seq)
            stream.join_live()
            return accepted, _hand_over(stack.pop_all(), stream, self._stream_events(stream, conversation))

    @contextmanager
    def _join(self, live: LiveConversation) -> Generator[SubscriberQueue]:
        queue = live.broadcaster.join(self._settings.reader_bytes)
        try:
            yield queue
        finally:
            live.broadcaster.leave(queue)
            self._slow_readers += queue.is_too_slow
            live.unfollow()

    def _stream_events(self, stream: Subscription, conversation: ConversationId) -> AsyncGenerator[Event]:
        return stream.events(lambda: self._reader_status(conversation), self._settings.beat_s)

    async def _reader_status(self, conversation: ConversationId) -> ConvStatus:
        """Return the status; a requested compaction that a stopped process left open is carried out now."""
        live = self._live_conversations.get(conversation)
        if status := live and live.status:
            return status
        views = await load_views(self._store, conversation)
        if live and views.compactions.pending and not views.progress.running:
            await self._start_compaction(live)
        return (live and live.status) or await self._stored_status(conversation, views)

    async def _start_compaction(self, live: LiveConversation) -> None:
        try:
            if not await self._store.is_held(live.conversation):
                await live.start_open_turn()
        except CodedError as error:
            # The reader gets the stored blocks all the same, and the next message tries again.
            fields = {"conversation_id": live.conversation, "code": error.code}
            _logger.warning("a requested compaction cannot be carried out", extra={"fields": fields})

    async def _stored_status(self, conversation: ConversationId, views: Views) -> ConvStatus:
        status = to_status(conversation, views, views.tail)
        if status.state == "running" and not await self._store.is_held(conversation):
            # The holder may have ended the turn just before it released the lease.
            views = await load_views(self._store, conversation)
            status = as_interrupted(to_status(conversation, views, views.tail))
        return status

    def _new_conversation_id(self) -> ConversationId:
        return make_conversation_id(self._clock.epoch_us() // 1000, self._ids.bits())

    def _require_open(self) -> None:
        if self._closing:
            raise CodedError(CLOSING.code, CLOSING.message)

    async def _run_on(self, conversation: ConversationId, work: LiveOperation) -> SendReceipt:
        async with self._use(conversation) as live:
            return await work(live)

    @asynccontextmanager
    async def _use(self, conversation: ConversationId) -> AsyncGenerator[LiveConversation]:
        self._require_open()
        live = self._live_conversations.get(conversation)
        if live is None:
            live = self._live_conversations[conversation] = LiveConversation(
                conversation,
                self._store,
                self._opener,
                self._settings.rest_s,
                self._remove_if_empty,
                self._write_recovery,
            )
        live.user_count += 1
        try:
            yield live
        finally:
            live.user_count -= 1
            self._remove_if_empty(live)

    def _remove_if_empty(self, live: LiveConversation) -> None:
        if live.is_empty and self._live_conversations.get(live.conversation) is live:
            del self._live_conversations[live.conversation]

    async def _resume_interrupted(self, conversation: ConversationId) -> None:
        async with self._use(conversation) as live:
            await live.start_open_turn()

    async def _resume_all(self) -> None:
        left: list[ConversationId] = []
        while page := await self._store.open_turns(after=left[-1] if left else "", limit=PAGE):
            left += page
        # All workers share one iterator: each takes the next conversation when it has finished one.
        names = iter(left)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._settings.resume_concurrency):
                group.create_task(self._resume_each(names))

    async def _resume_each(self, names: Iterator[ConversationId]) -> None:
        for conversation in names:
            try:
                async with self._use(conversation) as live:
                    await live.resume_turn()
            except ConversationHeldError as error:
                _logger.info(
                    "open turn skipped, another process holds the conversation",
                    extra={"fields": {"conversation_id": conversation, "holder": error.by}},
                )
            except CodedError as error:
                if is_write_failure(error):
                    self._write_recovery.on_write_failed(conversation)
                _logger.warning(
                    "open turn cannot be resumed",
                    extra={"fields": {"conversation_id": conversation, "code": error.code}},
                )


@asynccontextmanager
async def _hand_over(
    stack: AsyncExitStack, stream: Subscription, events: AsyncGenerator[Event]
) -> AsyncGenerator[tuple[Subscription, AsyncGenerator[Event]]]:
    async with stack:
        yield stream, events
