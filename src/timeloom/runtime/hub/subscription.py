"""Streams: what each reader of a conversation is told, from the store and then live, without a hole and never twice."""

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
"""Entries read from the store at once."""

ITEM_BYTES: Final = 200
"""What is counted for anything that waits, beside its text."""

TOO_SLOW: Final = ChatError(
    code="reader_too_slow",
    message="more was told than this reader took; come back with the id of the last block",
)


class Tail(msgspec.Struct, frozen=True):
    """There are entries in the store up to here."""

    seq: int


Told = Entry | ChatCompaction | ChatError | ConvStatus | Tail
Live = Told | ChatDelta
"""What is told to readers the moment it happens."""


class _Item(msgspec.Struct):
    told: Live
    after: int
    """The entry that was told before it."""
    size_bytes: int
    pieces: list[str] | None = None
    """The texts of deltas that wait together, where there are several."""

    def join(self, first: ChatDelta, delta: ChatDelta) -> None:
        if self.pieces is None:
            self.pieces = [first.text]
        self.pieces.append(delta.text)

    def taken(self) -> Live:
        if self.pieces and isinstance(self.told, ChatDelta):
            return msgspec.structs.replace(self.told, text="".join(self.pieces))
        return self.told


class Mailbox:
    """What waits for one reader, bounded: one that falls behind is told so and nothing else."""

    def __init__(self, most_bytes: int, so_far: Callable[[], list[Placed]]) -> None:
        self._most_bytes = most_bytes
        self._so_far = so_far
        self._bytes = 0
        self._items: deque[_Item] = deque()
        self.begun: list[Placed] = []
        """The open text that there was when this was opened, until somebody takes it."""
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._ends_at = 0.0
        self._is_open = False
        self.is_too_slow = False
        """Whether its reader fell behind."""
        self.ended = asyncio.Event()
        """Set once nothing more comes in."""

    @property
    def next(self) -> tuple[Live, int] | None:
        """What will be taken next, as far as it waits already."""
        return (self._items[0].told, self._items[0].after) if self._items else None

    def open(self) -> None:
        """From here on what happens waits here; before, the reader is at the store, which has all but open text."""
        self._is_open = not self.ended.is_set()
        self.begun = self._so_far()

    def take_before(self, seq: int) -> list[tuple[Live, int]]:
        """What was told before the entry with that seq, unless it is the last word to this reader."""
        taken: list[tuple[Live, int]] = []
        while self._is_open and self._items and not _is_from(self._items[0].told, seq):
            taken.append(self._taken())
        return taken

    def forget_text(self) -> None:
        """Drops the text that waits: no block will have it."""
        self.begun = []
        self._items = deque(item for item in self._items if not isinstance(item.told, ChatDelta))
        self._bytes = sum(item.size_bytes for item in self._items)

    def put(self, told: Live, after: int, size_bytes: int) -> None:
        """Keeps it until the reader takes it."""
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
        """The reader hears this and nothing after it, nor what was waiting: it comes back for that."""
        if not self.ended.is_set():
            self._items = deque([_Item(why, 0, 0)])
            self._is_open = False
            self.ended.set()
            self._wake()

    async def take(self, most_s: float) -> tuple[Live, int] | None:
        """What was told next, with the entry that was told before it; None where that takes too long."""
        if not self._items:
            self._ends_at = self._loop.time() + most_s
            # One timer for many waits: a stream has twenty in a second, and nearly all of them are short.
            if self._timer is None or self._timer.when() > self._ends_at:
                self._set_timer()
            self._waiter = self._loop.create_future()
            await self._waiter
            if not self._items:
                return None
        return self._taken()

    def close(self) -> None:
        """Nobody takes anything any more."""
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
    """The delta that waits and the one that goes on with it, where it does."""
    if not isinstance(last, ChatDelta) or not isinstance(told, ChatDelta):
        return None
    return (last, told) if goes_on(last, told) else None


class Channel:
    """All readers of one conversation."""

    def __init__(self) -> None:
        self._mailboxes: list[Mailbox] = []
        self._open = OpenText()
        self._last = 0
        """The newest entry that was told."""

    @property
    def has_readers(self) -> bool:
        """Whether anybody listens."""
        return bool(self._mailboxes)

    @property
    def readers(self) -> int:
        """How many listen."""
        return len(self._mailboxes)

    def join(self, most_bytes: int) -> Mailbox:
        """A new reader, until it leaves."""
        mailbox = Mailbox(most_bytes, self._open.told)
        self._mailboxes.append(mailbox)
        return mailbox

    def leave(self, mailbox: Mailbox) -> None:
        """Ends what `join` began."""
        self._mailboxes.remove(mailbox)
        mailbox.close()

    def entry(self, entry: Entry) -> None:
        """Tells of an entry that is durable."""
        if self._mailboxes:
            self._put(entry, len(encode_block(entry)))
        self._last = max(self._last, entry.seq)
        self._open.end(entry.block)

    def delta(self, delta: ChatDelta) -> None:
        """Tells of text on its way, now and to whoever comes before it is stored."""
        self._open.add(delta, self._last)
        if self._mailboxes:
            self._put(delta, most_bytes(delta.text))

    def tell(self, told: ChatCompaction | ChatError | ConvStatus | Tail) -> None:
        """Tells of anything else."""
        if isinstance(told, Tail):
            self._last = max(self._last, told.seq)
        self._put(told, 0)

    def forget_text(self) -> None:
        """Tells nobody any more of text on its way: no block will have it."""
        self._open.clear()
        for mailbox in self._mailboxes:
            mailbox.forget_text()

    def end(self, why: ChatError) -> None:
        """All readers hear this last."""
        for mailbox in tuple(self._mailboxes):
            mailbox.end(why)

    def _put(self, told: Live, text_bytes: int) -> None:
        for mailbox in tuple(self._mailboxes):
            mailbox.put(told, self._last, ITEM_BYTES + text_bytes)


class Stream:
    """What one reader is told of a conversation after some entry."""

    def __init__(self, store: Store, tenant: str, conversation: ConversationId, mailbox: Mailbox, after: int) -> None:
        self._store = store
        self._tenant = tenant
        self._conversation = conversation
        self._mailbox = mailbox
        self._sent = after
        self._is_joined = False
        self._is_live = False
        self._ended: dict[str, int] = {}
        """By kind of text, the newest entry told that ended it."""
        self._begun: deque[ChatDelta] = deque()
        """Open text that is still to be told."""
        self._left = 0
        """How many events of an entry are still to be told."""

    @property
    def has_more(self) -> bool:
        """Whether another event comes without anything having to happen first, so that it can be sent with the last."""
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
        """Set once nothing more comes in: a reader that does not take the rest in time can be left."""
        return self._mailbox.ended

    def end(self, why: ChatError) -> None:
        """Its reader hears this last."""
        self._mailbox.end(why)

    def join(self) -> None:
        """What is told comes from the mailbox alone: its reader was there when what it wants to hear began.

        Of what was before it is told the open text, to which more may come.
        """
        for told, after in self._mailbox.take_before(self._sent + 1):
            if isinstance(told, ChatDelta):
                self._mailbox.begun.append((told, after))
            elif isinstance(told, Entry):
                self._note_ended(told)
        self._begin()
        self._is_joined = self._is_live = True

    async def events(self, status: Callable[[], Awaitable[ConvStatus]], beat_s: float) -> AsyncGenerator[Event]:
        """The events, for ever; ends after an error that says that this stream is over.

        The status is told first, and again where the events begin to be live, unless that is at once. They begin with
        the text that is on its way and has begun before.
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
        # What became durable before this line is read from the store, what does after it waits in the mailbox, and
        # what is in both is told once.
        self._mailbox.open()
        await self._look_back(start)
        async for event in self._stored():
            yield event
        self._begin()
        self._is_live = True

    async def _look_back(self, start: int) -> None:
        """Notes what ended in blocks that the reader brings along: it may have them from the store, and come back,
        before they are told to those who listen."""
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
        """Whether no block that was told already ended it."""
        return after >= self._ended.get(kind_of(delta.channel), 0)

    def _note_ended(self, entry: Entry) -> None:
        for kind in ended_by(entry.block):
            self._ended[kind] = entry.seq

    def _each(self, events: Sequence[Event]) -> Iterator[Event]:
        for place, event in enumerate(events, 1):
            self._left = len(events) - place
            yield event
