"""Streams: what each reader of a conversation is told, from the store and then live, without a hole and never twice."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.ports.store import Store
from timeloom.runtime.hub_events import (
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
    pieces: list[str] = []
    """The texts of deltas that wait together."""

    def taken(self) -> Live:
        if isinstance(self.told, ChatDelta) and len(self.pieces) > 1:
            return msgspec.structs.replace(self.told, text="".join(self.pieces))
        return self.told


class Mailbox:
    """What waits for one reader, bounded: one that falls behind is told so and nothing else."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._items: deque[_Item] = deque()
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._ends_at = 0.0
        self._is_open = False
        self.is_too_slow = False
        """Whether its reader fell behind."""
        self.ended = asyncio.Event()
        """Set once nothing more comes in."""

    def open(self) -> None:
        """From here on what happens waits here; before, the reader is at the store, which has it all."""
        self._is_open = True

    def put(self, told: Live, after: int, size_bytes: int) -> None:
        """Keeps it until the reader takes it."""
        if not self._is_open or self.ended.is_set():
            return
        last = self._items[-1] if self._items else None
        if isinstance(told, ChatDelta) and last and last.after == after and _goes_on(last.told, told):
            last.pieces.append(told.text)
            last.size_bytes += size_bytes
        else:
            pieces = [told.text] if isinstance(told, ChatDelta) else []
            self._items.append(_Item(told, after, size_bytes, pieces))
        self._bytes += size_bytes
        if self._bytes > self._most_bytes:
            self.is_too_slow = True
            self.end(TOO_SLOW)
        self._news.set()

    def end(self, why: ChatError) -> None:
        """The reader hears this and nothing after it, nor what was waiting: it comes back for that."""
        if not self.ended.is_set():
            self._items = deque([_Item(why, 0, 0)])
            self.ended.set()
            self._news.set()

    async def take(self, most_s: float) -> tuple[Live, int] | None:
        """What was told next, with the entry that was told before it; None where that takes too long."""
        if not self._items:
            self._news.clear()
            self._ends_at = self._loop.time() + most_s
            # One timer for many waits: a stream has twenty in a second, and nearly all of them are short.
            if self._timer is None or self._timer.when() > self._ends_at:
                self._set_timer()
            await self._news.wait()
            if not self._items:
                return None
        item = self._items.popleft()
        self._bytes -= item.size_bytes
        return item.taken(), item.after

    def close(self) -> None:
        """Nobody takes anything any more."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self._ends_at, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._loop.time() < self._ends_at:
            self._set_timer()
        else:
            self._news.set()


def _goes_on(last: Live, delta: ChatDelta) -> bool:
    if not isinstance(last, ChatDelta):
        return False
    return (last.turn_id, last.channel, last.index) == (delta.turn_id, delta.channel, delta.index)


class Channel:
    """All readers of one conversation."""

    def __init__(self) -> None:
        self._mailboxes: list[Mailbox] = []
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
        mailbox = Mailbox(most_bytes)
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

    def delta(self, delta: ChatDelta) -> None:
        """Tells of text on its way."""
        if self._mailboxes:
            self._put(delta, len(delta.text.encode("utf-8", "surrogatepass")))

    def tell(self, told: ChatCompaction | ChatError | ConvStatus | Tail) -> None:
        """Tells of anything else."""
        if isinstance(told, Tail):
            self._last = max(self._last, told.seq)
        self._put(told, 0)

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

    @property
    def ended(self) -> asyncio.Event:
        """Set once nothing more comes in: a reader that does not take the rest in time can be left."""
        return self._mailbox.ended

    async def events(self, status: Callable[[], Awaitable[ConvStatus]], beat_s: float) -> AsyncGenerator[Event]:
        """The events, for ever; ends after an error that says that this stream is over.

        The status is told first, and again where the events begin to be live.
        """
        yield await status()
        async for event in self._stored():
            yield event
        # What became durable before this line is read from the store, what does after it waits in the mailbox, and what
        # is in both is told once.
        self._mailbox.open()
        async for event in self._stored():
            yield event
        yield await status()
        while True:
            taken = await self._mailbox.take(beat_s)
            if taken is None:
                yield Heartbeat()
                continue
            told, after = taken
            if isinstance(told, ChatDelta):
                # A block that was told already ended it.
                if after >= self._sent:
                    yield told
                continue
            async for event in self._live(told):
                yield event
            if isinstance(told, ChatError) and self._mailbox.ended.is_set():
                return

    async def _live(self, told: Told) -> AsyncGenerator[Event]:
        match told:
            case Entry() if told.seq == self._sent + 1:
                async for event in self._tell(told):
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
                async for event in self._tell(entry):
                    yield event

    async def _tell(self, entry: Entry) -> AsyncGenerator[Event]:
        block = await whole_block(self._store, self._tenant, entry)
        self._sent = entry.seq
        yield ChatBlock(seq=entry.seq, block=msgspec.Raw(block))
        for event in following(entry):
            yield event
