"""Streams a conversation to its readers, first from the store and then live, without gaps or duplicates."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Final

import msgspec

from timeloom.core.blocks import ApprovalRequested, TurnEnded
from timeloom.core.ids import ConversationId
from timeloom.core.payload import max_utf8_bytes
from timeloom.core.timeline import Entry
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import (
    ChatBlock,
    ChatCompaction,
    ChatDelta,
    ChatError,
    ConvStatus,
    Event,
    Heartbeat,
    derive_events,
)
from timeloom.runtime.hub.partial_text import PartialText, PositionedDelta, is_continuation, kinds_ended_by, text_kinds
from timeloom.runtime.read.export import encode_whole_block
from timeloom.wire.block_json import encode_block

PAGE: Final = 100
"""Entries per read from the store."""

ITEM_BYTES: Final = 200
"""Bytes counted for each queued item in addition to its text."""

TOO_SLOW: Final = ChatError(
    code="reader_too_slow",
    message="this reader is too slow for the stream; reconnect with the id of the last block",
)


class StoreTail(msgspec.Struct, frozen=True):
    """The store has entries up to this seq."""

    seq: int


PublishedItem = Entry | ChatCompaction | ChatError | ConvStatus | StoreTail
LiveItem = PublishedItem | ChatDelta
"""Anything that is published to readers as it happens."""


class _QueueItem(msgspec.Struct):
    value: LiveItem
    after: int
    """The last entry published before it."""
    size_bytes: int
    pieces: list[str] | None = None
    """The texts of merged deltas, if there are several."""

    def join(self, first: ChatDelta, delta: ChatDelta) -> None:
        if self.pieces is None:
            self.pieces = [first.text]
        self.pieces.append(delta.text)

    def merge(self) -> LiveItem:
        if self.pieces and isinstance(self.value, ChatDelta):
            return msgspec.structs.replace(self.value, text="".join(self.pieces))
        return self.value


class SubscriberQueue:
    """The bounded queue of one reader; if it overflows, the reader receives only the error `reader_too_slow`."""

    def __init__(self, max_bytes: int, partial_text: Callable[[], list[PositionedDelta]]) -> None:
        self._max_bytes = max_bytes
        self._partial_text = partial_text
        self._bytes = 0
        self._items: deque[_QueueItem] = deque()
        self.partial: list[PositionedDelta] = []
        """The partial text at the time the queue was opened, until the subscription takes it."""
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._ends_at = 0.0
        self._is_open = False
        self.is_too_slow = False
        """Whether the queue overflowed."""
        self.skips_content = False
        """Whether the reader wants neither text nor blocks, only what they mean for the conversation."""
        self.ended = asyncio.Event()
        """Set once no more items are accepted."""

    @property
    def next_item(self) -> tuple[LiveItem, int] | None:
        """The next item with the entry published before it, or None if the queue is empty."""
        return (self._items[0].value, self._items[0].after) if self._items else None

    def open(self) -> None:
        """Start queueing. Until now the reader reads from the store, which has everything except partial text."""
        self._is_open = not self.ended.is_set()
        self.partial = self._partial_text()

    def take_before(self, seq: int) -> list[tuple[LiveItem, int]]:
        """Remove and return the items before the entry with that seq, unless the queue has ended."""
        taken: list[tuple[LiveItem, int]] = []
        while self._is_open and self._items and not _is_from(self._items[0].value, seq):
            taken.append(self._pop())
        return taken

    def drop_text(self) -> None:
        """Drop queued deltas whose text will never be stored in a block."""
        self.partial = []
        self._items = deque(item for item in self._items if not isinstance(item.value, ChatDelta))
        self._bytes = sum(item.size_bytes for item in self._items)

    def drop_older_statuses(self, status: ConvStatus) -> None:
        """Drop queued statuses that are older than this one, which was determined after they were published.

        An equal one stays, because it follows the blocks that led to it.
        """
        self._items = deque(item for item in self._items if not _is_older(item.value, status))
        self._bytes = sum(item.size_bytes for item in self._items)

    def put(self, item: LiveItem, after: int, size_bytes: int) -> None:
        """Queue the item; a delta is merged into the last one if it continues the same text."""
        if not self._is_open or (self.skips_content and _is_content(item)):
            return
        last = self._items[-1] if self._items else None
        if last and last.after == after and (continued := _continued_pair(last.value, item)):
            last.join(*continued)
            last.size_bytes += size_bytes
        else:
            self._items.append(_QueueItem(item, after, size_bytes))
        self._bytes += size_bytes
        if self._bytes > self._max_bytes:
            self.is_too_slow = True
            self.end(TOO_SLOW)
        self._wake()

    def end(self, why: ChatError) -> None:
        """Replace all queued items with this error, the last one; the reader has to reconnect for the rest."""
        if not self.ended.is_set():
            self._items = deque([_QueueItem(why, 0, 0)])
            self._is_open = False
            self.ended.set()
            self._wake()

    async def take(self, timeout_s: float) -> tuple[LiveItem, int] | None:
        """Return the next item with the entry published before it; None after `timeout_s` seconds without one."""
        if not self._items:
            self._ends_at = self._loop.time() + timeout_s
            # One timer serves many waits: a stream waits about twenty times per second, nearly always briefly.
            if self._timer is None or self._timer.when() > self._ends_at:
                self._set_timer()
            self._waiter = self._loop.create_future()
            await self._waiter
            if not self._items:
                return None
        return self._pop()

    def close(self) -> None:
        """Cancel the timer; the reader takes no more items."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _pop(self) -> tuple[LiveItem, int]:
        item = self._items.popleft()
        self._bytes -= item.size_bytes
        return item.merge(), item.after

    def _set_timer(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self._ends_at, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._loop.time() < self._ends_at:
            self._set_timer()
        else:
            self._wake()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


def _is_content(item: LiveItem) -> bool:
    is_text = isinstance(item, ChatDelta)
    return is_text or (isinstance(item, Entry) and not isinstance(item.block, ApprovalRequested | TurnEnded))


def _is_older(item: LiveItem, status: ConvStatus) -> bool:
    if not isinstance(item, ConvStatus):
        return False
    return item.tail < status.tail or (item.tail == status.tail and item.state != status.state)


def _is_from(item: LiveItem, seq: int) -> bool:
    return isinstance(item, Entry) and item.seq >= seq


def _continued_pair(last: LiveItem, item: LiveItem) -> tuple[ChatDelta, ChatDelta] | None:
    """Return both deltas if the second continues the text of the first, else None."""
    if not isinstance(last, ChatDelta) or not isinstance(item, ChatDelta):
        return None
    return (last, item) if is_continuation(last, item) else None


class Broadcaster:
    """Publishes the events of one conversation to all its readers."""

    def __init__(self) -> None:
        self._queues: list[SubscriberQueue] = []
        self._partial = PartialText()
        self._last_seq = 0
        """The newest published entry."""

    @property
    def has_readers(self) -> bool:
        """Whether there are readers."""
        return bool(self._queues)

    @property
    def readers(self) -> int:
        """The number of readers."""
        return len(self._queues)

    def join(self, max_bytes: int) -> SubscriberQueue:
        """Add a reader and return its queue; `leave` removes it."""
        queue = SubscriberQueue(max_bytes, self._partial.snapshot)
        self._queues.append(queue)
        return queue

    def leave(self, queue: SubscriberQueue) -> None:
        """Remove the reader of that queue."""
        self._queues.remove(queue)
        queue.close()

    def publish_entry(self, entry: Entry) -> None:
        """Publish a durable entry."""
        if self._queues:
            is_read = not all(queue.skips_content for queue in self._queues)
            self._enqueue(entry, len(encode_block(entry)) if is_read else 0)
        self._last_seq = max(self._last_seq, entry.seq)
        self._partial.end(entry.block)

    def publish_delta(self, delta: ChatDelta) -> None:
        """Publish streamed text, and keep it for readers that join before it is stored."""
        self._partial.add(delta, self._last_seq)
        if self._queues:
            self._enqueue(delta, max_utf8_bytes(delta.text))

    def publish(self, event: ChatCompaction | ChatError | ConvStatus | StoreTail) -> None:
        """Publish any other event."""
        if isinstance(event, StoreTail):
            self._last_seq = max(self._last_seq, event.seq)
        self._enqueue(event, 0)

    def drop_text(self) -> None:
        """Drop partial text that will never be stored in a block."""
        self._partial.clear()
        for queue in self._queues:
            queue.drop_text()

    def end(self, why: ChatError) -> None:
        """End all streams with this error."""
        for queue in tuple(self._queues):
            queue.end(why)

    def _enqueue(self, item: LiveItem, text_bytes: int) -> None:
        for queue in tuple(self._queues):
            queue.put(item, self._last_seq, ITEM_BYTES + text_bytes)


class Subscription:
    """The events of a conversation after some entry, for one reader."""

    def __init__(
        self, store: Store, tenant: str, conversation: ConversationId, queue: SubscriberQueue, after: int
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._conversation = conversation
        self._queue = queue
        self._sent_seq = after
        self._is_joined = False
        self._is_live = False
        self._ended: dict[str, int] = {}
        """By kind of text, the newest sent entry that ended it."""
        self._pending_text: deque[ChatDelta] = deque()
        """Partial text that is still to be sent."""
        self._events_left = 0
        """The number of events of the current entry that are still to be sent."""
        self._status_tail = 0
        """The tail of the newest status that was sent."""

    @property
    def has_more(self) -> bool:
        """Whether another event is available at once, so that it can be sent together with the last one."""
        if self._events_left or self._pending_text or not self._is_live:
            return True
        match self._queue.next_item:
            case None | (StoreTail(), _):
                return False
            case (ChatDelta() as delta, after):
                return self._is_unfinished(delta, after)
            case (Entry(seq=seq), _):
                return seq > self._sent_seq
            case (ConvStatus(tail=tail), _):
                return tail >= self._status_tail
            case _:
                return True

    @property
    def ended(self) -> asyncio.Event:
        """Set once no more events are queued; the server may then drop a reader that does not take the rest."""
        return self._queue.ended

    def end(self, why: ChatError) -> None:
        """End the stream with this error."""
        self._queue.end(why)

    def skip_content(self) -> None:
        """Yield no more text and blocks, only statuses, approvals, errors and the ends of turns."""
        self._queue.skips_content = True

    def join_live(self) -> None:
        """Skip reading from the store: the reader joined before the first entry it wants.

        Of the earlier events only the partial text is sent, because more of it may follow.
        """
        for item, after in self._queue.take_before(self._sent_seq + 1):
            if isinstance(item, ChatDelta):
                self._queue.partial.append((item, after))
            elif isinstance(item, Entry):
                self._record_ended(item)
        self._take_partial_text()
        self._is_joined = self._is_live = True

    async def events(self, status: Callable[[], Awaitable[ConvStatus]], beat_s: float) -> AsyncGenerator[Event]:
        """Yield events without end; stop only after an error that ends this stream.

        The status comes first, and again when the live events begin, unless they begin at once. The live events start
        with the partial text so far. No status has a lower tail than the one before it.
        """
        yield await self._current_status(status)
        if not self._is_joined:
            async for event in self._catch_up():
                yield event
            yield await self._current_status(status)
        while self._pending_text:
            yield self._pending_text.popleft()
        while True:
            taken = await self._queue.take(beat_s)
            if taken is None:
                yield Heartbeat()
                continue
            item, after = taken
            if isinstance(item, ChatDelta):
                if self._is_unfinished(item, after):
                    yield item
                continue
            async for event in self._live_events(item):
                yield event
            if isinstance(item, ChatError) and self._queue.ended.is_set():
                return

    async def _current_status(self, status: Callable[[], Awaitable[ConvStatus]]) -> ConvStatus:
        current = await status()
        self._status_tail = current.tail
        self._queue.drop_older_statuses(current)
        return current

    async def _catch_up(self) -> AsyncGenerator[Event]:
        start = self._sent_seq
        async for event in self._stored_events():
            yield event
        # Entries that became durable before this line are read from the store, later ones are queued, and entries in
        # both are sent once.
        self._queue.open()
        await self._look_back(start)
        async for event in self._stored_events():
            yield event
        self._take_partial_text()
        self._is_live = True

    async def _look_back(self, start: int) -> None:
        """Record texts that ended in blocks the reader already has.

        A reader may have read a block from the store and reconnected before the block was published.
        """
        last = max((after for _, after in self._queue.partial), default=start)
        if last < start:
            for entry in await self._store.load(self._conversation, after=last, limit=start - last):
                self._record_ended(entry)

    async def _live_events(self, item: PublishedItem) -> AsyncGenerator[Event]:
        match item:
            case Entry() if self._queue.skips_content:
                self._sent_seq = max(self._sent_seq, item.seq)
                for event in self._iter_events(tuple(derive_events(item))):
                    yield event
            case Entry() if item.seq == self._sent_seq + 1:
                for event in await self._entry_events(item):
                    yield event
            case Entry() | StoreTail():
                if item.seq > self._sent_seq:
                    async for event in self._stored_events():
                        yield event
            case ConvStatus(tail=tail):
                if tail >= self._status_tail:
                    self._status_tail = tail
                    yield item
            case _:
                yield item

    async def _stored_events(self) -> AsyncGenerator[Event]:
        while page := await self._store.load(self._conversation, after=self._sent_seq, limit=PAGE):
            for entry in page:
                for event in await self._entry_events(entry):
                    yield event

    async def _entry_events(self, entry: Entry) -> Iterator[Event]:
        block = await encode_whole_block(self._store, self._tenant, entry)
        self._sent_seq = entry.seq
        self._record_ended(entry)
        return self._iter_events((ChatBlock(seq=entry.seq, block=msgspec.Raw(block)), *derive_events(entry)))

    def _take_partial_text(self) -> None:
        partial, self._queue.partial = self._queue.partial, []
        self._pending_text.extend(delta for delta, after in partial if self._is_unfinished(delta, after))

    def _is_unfinished(self, delta: ChatDelta, after: int) -> bool:
        """Return whether the delta's text was not ended by a block that was already sent."""
        return all(after >= self._ended.get(kind, 0) for kind in text_kinds(delta))

    def _record_ended(self, entry: Entry) -> None:
        for kind in kinds_ended_by(entry.block):
            self._ended[kind] = entry.seq

    def _iter_events(self, events: Sequence[Event]) -> Iterator[Event]:
        for place, event in enumerate(events, 1):
            self._events_left = len(events) - place
            yield event
