"""Streams a conversation to its readers, first from the store and then live, without gaps or duplicates."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Final

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.core.payload import most_bytes
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
    following,
    whole_block,
)
from timeloom.runtime.hub.partial_text import OpenText, Placed, ended_by, goes_on, kind_of
from timeloom.wire.block_json import encode_block

PAGE: Final = 100
"""Entries per read from the store."""

ITEM_BYTES: Final = 200
"""Bytes counted for each queued item in addition to its text."""

TOO_SLOW: Final = ChatError(
    code="reader_too_slow",
    message="this reader is too slow for the stream; reconnect with the id of the last block",
)


class Tail(msgspec.Struct, frozen=True):
    """The store has entries up to this seq."""

    seq: int


Told = Entry | ChatCompaction | ChatError | ConvStatus | Tail
Live = Told | ChatDelta
"""Anything that is published to readers as it happens."""


class _Item(msgspec.Struct):
    told: Live
    after: int
    """The last entry published before it."""
    size_bytes: int
    pieces: list[str] | None = None
    """The texts of merged deltas, if there are several."""

    def join(self, first: ChatDelta, delta: ChatDelta) -> None:
        if self.pieces is None:
            self.pieces = [first.text]
        self.pieces.append(delta.text)

    def taken(self) -> Live:
        if self.pieces and isinstance(self.told, ChatDelta):
            return msgspec.structs.replace(self.told, text="".join(self.pieces))
        return self.told


class Mailbox:
    """The bounded queue of one reader; if it overflows, the reader receives only the error `reader_too_slow`."""

    def __init__(self, most_bytes: int, so_far: Callable[[], list[Placed]]) -> None:
        self._most_bytes = most_bytes
        self._so_far = so_far
        self._bytes = 0
        self._items: deque[_Item] = deque()
        self.begun: list[Placed] = []
        """The partial text at the time the queue was opened, until the subscription takes it."""
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._ends_at = 0.0
        self._is_open = False
        self.is_too_slow = False
        """Whether the queue overflowed."""
        self.ended = asyncio.Event()
        """Set once no more items are accepted."""

    @property
    def next(self) -> tuple[Live, int] | None:
        """The next item with the entry published before it, or None if the queue is empty."""
        return (self._items[0].told, self._items[0].after) if self._items else None

    def open(self) -> None:
        """Start queueing. Until now the reader reads from the store, which has everything except partial text."""
        self._is_open = not self.ended.is_set()
        self.begun = self._so_far()

    def take_before(self, seq: int) -> list[tuple[Live, int]]:
        """Remove and return the items before the entry with that seq, unless the queue has ended."""
        taken: list[tuple[Live, int]] = []
        while self._is_open and self._items and not _is_from(self._items[0].told, seq):
            taken.append(self._taken())
        return taken

    def forget_text(self) -> None:
        """Drop queued deltas whose text will never be stored in a block."""
        self.begun = []
        self._items = deque(item for item in self._items if not isinstance(item.told, ChatDelta))
        self._bytes = sum(item.size_bytes for item in self._items)

    def put(self, told: Live, after: int, size_bytes: int) -> None:
        """Queue the item; a delta is merged into the last one if it continues the same text."""
        if not self._is_open:
            return
        last = self._items[-1] if self._items else None
        if last and last.after == after and (first := _begun(last.told, told)):
            last.join(*first)
            last.size_bytes += size_bytes
        else:
            self._items.append(_Item(told, after, size_bytes))
        self._bytes += size_bytes
        if self._bytes > self._most_bytes:
            self.is_too_slow = True
            self.end(TOO_SLOW)
        self._wake()

    def end(self, why: ChatError) -> None:
        """Replace all queued items with this error, the last one; the reader has to reconnect for the rest."""
        if not self.ended.is_set():
            self._items = deque([_Item(why, 0, 0)])
            self._is_open = False
            self.ended.set()
            self._wake()

    async def take(self, most_s: float) -> tuple[Live, int] | None:
        """Return the next item with the entry published before it; None after `timeout_s` seconds without one."""
        if not self._items:
            self._ends_at = self._loop.time() + most_s
            # One timer serves many waits: a stream waits about twenty times per second, nearly always briefly.
            if self._timer is None or self._timer.when() > self._ends_at:
                self._set_timer()
            self._waiter = self._loop.create_future()
            await self._waiter
            if not self._items:
                return None
        return self._taken()

    def close(self) -> None:
        """Cancel the timer; the reader takes no more items."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _taken(self) -> tuple[Live, int]:
        item = self._items.popleft()
        self._bytes -= item.size_bytes
        return item.taken(), item.after

    def _set_timer(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self._ends_at, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._loop.time() < self._ends_at:
            self._set_timer()
        else:
            self._wake()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


def _is_from(told: Live, seq: int) -> bool:
    return isinstance(told, Entry) and told.seq >= seq


def _begun(last: Live, told: Live) -> tuple[ChatDelta, ChatDelta] | None:
    """Return both deltas if the second continues the text of the first, else None."""
    if not isinstance(last, ChatDelta) or not isinstance(told, ChatDelta):
        return None
    return (last, told) if goes_on(last, told) else None


class Channel:
    """Publishes the events of one conversation to all its readers."""

    def __init__(self) -> None:
        self._mailboxes: list[Mailbox] = []
        self._open = OpenText()
        self._last = 0
        """The newest published entry."""

    @property
    def has_readers(self) -> bool:
        """Whether there are readers."""
        return bool(self._mailboxes)

    @property
    def readers(self) -> int:
        """The number of readers."""
        return len(self._mailboxes)

    def join(self, most_bytes: int) -> Mailbox:
        """Add a reader and return its queue; `leave` removes it."""
        mailbox = Mailbox(most_bytes, self._open.told)
        self._mailboxes.append(mailbox)
        return mailbox

    def leave(self, mailbox: Mailbox) -> None:
        """Remove the reader of that queue."""
        self._mailboxes.remove(mailbox)
        mailbox.close()

    def entry(self, entry: Entry) -> None:
        """Publish a durable entry."""
        if self._mailboxes:
            self._put(entry, len(encode_block(entry)))
        self._last = max(self._last, entry.seq)
        self._open.end(entry.block)

    def delta(self, delta: ChatDelta) -> None:
        """Publish streamed text, and keep it for readers that join before it is stored."""
        self._open.add(delta, self._last)
        if self._mailboxes:
            self._put(delta, most_bytes(delta.text))

    def tell(self, told: ChatCompaction | ChatError | ConvStatus | Tail) -> None:
        """Publish any other event."""
        if isinstance(told, Tail):
            self._last = max(self._last, told.seq)
        self._put(told, 0)

    def forget_text(self) -> None:
        """Drop partial text that will never be stored in a block."""
        self._open.clear()
        for mailbox in self._mailboxes:
            mailbox.forget_text()

    def end(self, why: ChatError) -> None:
        """End all streams with this error."""
        for mailbox in tuple(self._mailboxes):
            mailbox.end(why)

    def _put(self, told: Live, text_bytes: int) -> None:
        for mailbox in tuple(self._mailboxes):
            mailbox.put(told, self._last, ITEM_BYTES + text_bytes)


class Stream:
    """The events of a conversation after some entry, for one reader."""

    def __init__(self, store: Store, tenant: str, conversation: ConversationId, mailbox: Mailbox, after: int) -> None:
        self._store = store
        self._tenant = tenant
        self._conversation = conversation
        self._mailbox = mailbox
        self._sent = after
        self._is_joined = False
        self._is_live = False
        self._ended: dict[str, int] = {}
        """By kind of text, the newest sent entry that ended it."""
        self._begun: deque[ChatDelta] = deque()
        """Partial text that is still to be sent."""
        self._left = 0
        """The number of events of the current entry that are still to be sent."""

    @property
    def has_more(self) -> bool:
        """Whether another event is available at once, so that it can be sent together with the last one."""
        if self._left or self._begun or not self._is_live:
            return True
        match self._mailbox.next:
            case None | (Tail(), _):
                return False
            case (ChatDelta() as delta, after):
                return self._is_on_its_way(delta, after)
            case (Entry(seq=seq), _):
                return seq > self._sent
            case _:
                return True

    @property
    def ended(self) -> asyncio.Event:
        """Set once no more events are queued; the server may then drop a reader that does not take the rest."""
        return self._mailbox.ended

    def end(self, why: ChatError) -> None:
        """End the stream with this error."""
        self._mailbox.end(why)

    def join(self) -> None:
        """Skip reading from the store: the reader joined before the first entry it wants.

        Of the earlier events only the partial text is sent, because more of it may follow.
        """
        for told, after in self._mailbox.take_before(self._sent + 1):
            if isinstance(told, ChatDelta):
                self._mailbox.begun.append((told, after))
            elif isinstance(told, Entry):
                self._note_ended(told)
        self._begin()
        self._is_joined = self._is_live = True

    async def events(self, status: Callable[[], Awaitable[ConvStatus]], beat_s: float) -> AsyncGenerator[Event]:
        """Yield events without end; stop only after an error that ends this stream.

        The status comes first, and again when the live events begin, unless they begin at once. The live events start
        with the partial text so far.
        """
        yield await status()
        if not self._is_joined:
            async for event in self._caught_up():
                yield event
            yield await status()
        while self._begun:
            yield self._begun.popleft()
        while True:
            taken = await self._mailbox.take(beat_s)
            if taken is None:
                yield Heartbeat()
                continue
            told, after = taken
            if isinstance(told, ChatDelta):
                if self._is_on_its_way(told, after):
                    yield told
                continue
            async for event in self._live(told):
                yield event
            if isinstance(told, ChatError) and self._mailbox.ended.is_set():
                return

    async def _caught_up(self) -> AsyncGenerator[Event]:
        start = self._sent
        async for event in self._stored():
            yield event
        # Entries that became durable before this line are read from the store, later ones are queued, and entries in
        # both are sent once.
        self._mailbox.open()
        await self._look_back(start)
        async for event in self._stored():
            yield event
        self._begin()
        self._is_live = True

    async def _look_back(self, start: int) -> None:
        """Record texts that ended in blocks the reader already has.

        A reader may have read a block from the store and reconnected before the block was published.
        """
        last = max((after for _, after in self._mailbox.begun), default=start)
        if last < start:
            for entry in await self._store.load(self._conversation, after=last, limit=start - last):
                self._note_ended(entry)

    async def _live(self, told: Told) -> AsyncGenerator[Event]:
        match told:
            case Entry() if told.seq == self._sent + 1:
                for event in await self._tell(told):
                    yield event
            case Entry() | Tail():
                if told.seq > self._sent:
                    async for event in self._stored():
                        yield event
            case _:
                yield told

    async def _stored(self) -> AsyncGenerator[Event]:
        while page := await self._store.load(self._conversation, after=self._sent, limit=PAGE):
            for entry in page:
                for event in await self._tell(entry):
                    yield event

    async def _tell(self, entry: Entry) -> Iterator[Event]:
        block = await whole_block(self._store, self._tenant, entry)
        self._sent = entry.seq
        self._note_ended(entry)
        return self._each((ChatBlock(seq=entry.seq, block=msgspec.Raw(block)), *following(entry)))

    def _begin(self) -> None:
        begun, self._mailbox.begun = self._mailbox.begun, []
        self._begun.extend(delta for delta, after in begun if self._is_on_its_way(delta, after))

    def _is_on_its_way(self, delta: ChatDelta, after: int) -> bool:
        """Return whether the delta's text was not ended by a block that was already sent."""
        return after >= self._ended.get(kind_of(delta.channel), 0)

    def _note_ended(self, entry: Entry) -> None:
        for kind in ended_by(entry.block):
            self._ended[kind] = entry.seq

    def _each(self, events: Sequence[Event]) -> Iterator[Event]:
        for place, event in enumerate(events, 1):
            self._left = len(events) - place
            yield event
