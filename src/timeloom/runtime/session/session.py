"""The session: the one writer of a conversation, and the only one that appends."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, Self, TypeVar

from timeloom.core.blocks import AnyBlock, ConversationStarted, UserPrompt
from timeloom.core.blocks.extract_payloads import references, take_out
from timeloom.core.ids import (
    CallId,
    ConversationId,
    MessageId,
    PlanId,
    TurnId,
    make_call_id,
    make_plan_id,
    make_turn_id,
)
from timeloom.core.payload import BlobRef, Text
from timeloom.core.timeline import NO_TURN, Draft, Entry, place
from timeloom.core.view.views import Views
from timeloom.ports.blobs import BlobError
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.ids import Ids
from timeloom.ports.leases import Lease, LeaseLostError
from timeloom.ports.ledger import Ledger
from timeloom.ports.store import Store
from timeloom.ports.tool import Caller
from timeloom.runtime.session.lineage import root_of
from timeloom.runtime.session.load_views import load_views

T = TypeVar("T")

Listener = Callable[[Entry], None]

HOLDER: Final = "timeloom"
"""Who holds a conversation, for people who are refused; whoever opens a session can say it better."""


class Session:
    """Appends to one conversation and keeps its views at the tail.

    It holds the conversation until it is closed: nobody else can open it, and the journal checks that at every append.
    It persists first and publishes after: a listener hears only of what is durable, in order. Where the conversation
    was taken over, an append raises `LeaseLostError`; then this session is over, and the next one loads what is there.
    """

    def __init__(
        self,
        store: Store,
        conversation: ConversationId,
        views: Views,
        clock: Clock,
        ids: Ids,
        lease: Lease | None = None,
    ) -> None:
        self._store = store
        self._lease = lease
        self._begins_as = ""
        """Who is to hold the conversation, as long as it is not in the store."""
        self._over: LeaseLostError | None = None
        self._clock = clock
        self._ids = ids
        self._lock = asyncio.Lock()
        self._listeners: list[Listener] = []
        self._watchers: list[Listener] = []
        self._noted: list[Entry] = []
        """Entries that the views have and the journal not yet: the next append takes them along."""
        self._awaited: list[asyncio.Future[None]] = []
        """Those who wait until what was noted is durable."""
        self.conversation = conversation
        self.views = views
        self.opening = ""
        """The conversation's first user message."""
        self.root = conversation
        """The first conversation of the tree that this one belongs to; itself, where it was begun from no other."""

    @classmethod
    async def start(
        cls,
        store: Store,
        conversation: ConversationId,
        header: ConversationStarted,
        clock: Clock,
        ids: Ids,
        *,
        holder: str = HOLDER,
    ) -> Self:
        """A session of a new conversation."""
        session = await cls.begin(store, conversation, header, clock, ids, holder=holder)
        await session.flush()
        return session

    @classmethod
    async def begin(
        cls,
        store: Store,
        conversation: ConversationId,
        header: ConversationStarted,
        clock: Clock,
        ids: Ids,
        *,
        holder: str = HOLDER,
    ) -> Self:
        """A session of a new conversation, which is stored with the first append; where that fails, it is over."""
        session = cls(store, conversation, Views(), clock, ids)
        session.root = await root_of(store, conversation, header.parent)
        session._begins_as = holder
        await session.append_deferred([header], NO_TURN)
        return session

    @classmethod
    async def resume(
        cls, store: Store, conversation: ConversationId, clock: Clock, ids: Ids, *, holder: str = HOLDER
    ) -> Self:
        """A session that goes on where the conversation ends; raises `ConversationUnknownError` or `HeldError`."""
        # First, so that nothing can be written between loading and appending.
        lease = await store.acquire(conversation, holder)
        try:
            session = cls(store, conversation, await load_views(store, conversation), clock, ids, lease)
            await session._find_opening()
            header = session.views.conversation.header
            session.root = await root_of(store, conversation, header and header.parent)
        except BaseException:
            await store.release(lease)
            raise
        return session

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Lets go of the conversation after what is being appended; a second close does nothing."""
        if self._begins_as:
            # Its end does not begin a conversation.
            self._noted.clear()
        try:
            with contextlib.suppress(LeaseLostError):
                await self.flush()
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        async with self._lock:
            lease, self._lease = self._lease, None
            self._over = self._over or LeaseLostError(self.conversation, "its session was closed")
            if lease:
                # To its end, also where the caller is cancelled: nobody else could release it.
                await asyncio.shield(self._store.release(lease))

    @property
    def caller(self) -> Caller:
        """On whose behalf this conversation is held."""
        header = self.views.conversation.header
        if header is None:
            return Caller(tenant="", project="", user="")
        return Caller(tenant=header.tenant, project=header.project, user=header.user, bundle=header.bundle)

    @property
    def ledger(self) -> Ledger:
        """What this conversation and others may spend together."""
        return self._store.ledger

    @property
    def noted(self) -> tuple[Entry, ...]:
        """The entries that the views have and the journal not yet."""
        return tuple(self._noted)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls the listener with each entry once it is durable; what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def watch(self, watcher: Listener) -> None:
        """Calls the watcher with each entry as soon as the views have it, be it durable or not."""
        self._watchers.append(watcher)

    async def append_deferred(self, blocks: Sequence[AnyBlock], turn_id: TurnId) -> tuple[Entry, ...]:
        """The blocks as entries that become durable with the next append: with it, or not at all.

        For what nothing outside hangs on before that, and which can be made again if a crash takes it. The views have
        it at once, listeners hear of it when it is durable. What may not wait for its size is appended as usual.
        """
        if not all(map(_is_small, blocks)):
            return await self.append(blocks, turn_id)
        async with self._lock:
            if self._over:
                raise self._over
            ts, tail = self.now(), self.views.tail
            drafts = [Draft(turn_id, ts, block) for block in blocks]
            entries = tuple(place(draft, seq) for seq, draft in enumerate(drafts, tail + 1))
            self._noted += entries
            self._take_in(entries, blocks)
        return entries

    def settled(self) -> "asyncio.Future[None]":
        """Done once all that was noted until now is durable; where that fails, it is not stored later either."""
        waiter = asyncio.get_running_loop().create_future()
        if self._noted:
            self._awaited.append(waiter)
        else:
            waiter.set_result(None)
        return waiter

    async def flush(self) -> None:
        """Makes durable what was noted."""
        if self._noted:
            await self.append([], self._noted[-1].turn_id)

    async def append(
        self, blocks: Sequence[AnyBlock], turn_id: TurnId, *, after: int | None = None
    ) -> tuple[Entry, ...]:
        """The blocks as entries, durable together, at the present time.

        Where `after` is given and something stands after that seq by now, nothing is appended and nothing returned.
        Whoever is cancelled meanwhile hears of it after the append: views that lag behind the journal could not go on.
        """
        async with self._lock:
            if self._over:
                raise self._over
            if after is not None and after != self.views.tail:
                return ()
            ts, noted = self.now(), len(self._noted)
            drafts = [*self._noted, *(Draft(turn_id, ts, block) for block in blocks)]
            if not drafts:
                return ()
            try:
                stored, cancelled = await to_its_end(self._stored(self.views.tail - noted, drafts))
            except Exception as error:
                self._give_up(error)
                raise
            self._noted.clear()
            entries = stored[noted:]
            self._take_in(entries, blocks)
            self._answer_awaited(None)
        for entry in stored:
            for listener in tuple(self._listeners):
                listener(entry)
        if cancelled:
            raise asyncio.CancelledError
        return entries

    async def _stored(self, tail: int, drafts: Sequence[Draft]) -> tuple[Entry, ...]:
        if not self._begins_as:
            return await self._store.append(self.conversation, tail, drafts, self._lease)
        stored, self._lease = await self._store.begin(self.conversation, drafts, self._begins_as)
        self._begins_as = ""
        return stored

    def _give_up(self, error: Exception) -> None:
        """After an append that failed: what somebody waited for was refused to them, and must not be stored later."""
        if isinstance(error, BlobError):
            # It can be appended again, with what it refers to.
            return
        if isinstance(error, LeaseLostError):
            self._over = error
        elif self._begins_as or self._awaited:
            self._over = LeaseLostError(self.conversation, "it could not be stored")
            self._noted.clear()
        self._answer_awaited(error)

    def _answer_awaited(self, error: Exception | None) -> None:
        awaited, self._awaited = self._awaited, []
        for waiter in awaited:
            # Whoever waited may have been cancelled.
            if waiter.done():
                continue
            if error:
                waiter.set_exception(error)
                # Whoever appended hears of it in any case.
                waiter.exception()
            else:
                waiter.set_result(None)

    async def entries(self, seqs: Sequence[int]) -> list[Entry]:
        """The entries at these places; runs of neighbours are read together."""
        noted = {entry.seq: entry for entry in self._noted}
        found: list[Entry] = []
        for first, last in _runs([seq for seq in seqs if seq not in noted]):
            found += await self._store.load(self.conversation, after=first - 1, limit=last - first + 1)
        return [*found, *(noted[seq] for seq in seqs if seq in noted)]

    async def payload(self, ref: BlobRef) -> bytes:
        """What the reference stands for."""
        return await self._store.read_blob(self.caller.tenant, ref)

    async def text(self, text: Text) -> str:
        """The text, wherever it is."""
        return text if isinstance(text, str) else (await self.payload(text)).decode("utf-8", "replace")

    def now(self) -> str:
        """The time as blocks carry it."""
        return timestamp(self._clock.epoch_us())

    def epoch_us(self) -> int:
        """The time in microseconds since 1970."""
        return self._clock.epoch_us()

    def new_turn_id(self) -> TurnId:
        """A turn id of the present time."""
        return make_turn_id(self._clock.epoch_us() // 1000, self._ids.bits())

    def new_call_id(self) -> CallId:
        """A call id that this turn has not used."""
        return make_call_id(self._ids.bits())

    def new_plan_id(self, turn_id: TurnId) -> PlanId:
        """A plan id that names the turn."""
        return make_plan_id(turn_id, self._ids.bits())

    def new_message_id(self) -> MessageId:
        """An id for something that a user or the outside sends."""
        return MessageId(make_call_id(self._ids.bits()))

    def _take_in(self, entries: Sequence[Entry], blocks: Sequence[AnyBlock]) -> None:
        for entry in entries:
            self.views.add(entry)
            self._note_opening(entry, blocks)
            for watcher in self._watchers:
                watcher(entry)

    def _note_opening(self, entry: Entry, blocks: Sequence[AnyBlock]) -> None:
        if self.opening or not isinstance(entry.block, UserPrompt):
            return
        # The stored block may refer to its text; the one that was given has it.
        given = next(block.text for block in blocks if isinstance(block, UserPrompt))
        self.opening = given if isinstance(given, str) else ""

    async def _find_opening(self) -> None:
        for turn in self.views.turns.turns:
            for seq in self.views.paths.find(f"ar:{turn}.user.prompt")[:1]:
                (entry,) = await self.entries([seq])
                if isinstance(entry.block, UserPrompt):
                    self.opening = await self.text(entry.block.text)
                return


def _is_small(block: AnyBlock) -> bool:
    """Whether the block is stored as it is, with no payload apart."""
    try:
        stored, payloads = take_out(block)
    except UnicodeEncodeError:
        # The append says what is wrong with it.
        return False
    return not payloads and not references(stored)


async def to_its_end(work: Coroutine[object, object, T]) -> tuple[T, bool]:
    """What the work comes to, and whether whoever waits for it was cancelled meanwhile."""
    running, cancelled = asyncio.create_task(work), False
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError:
            cancelled = True
    return running.result(), cancelled


def _runs(seqs: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for seq in seqs:
        if runs and seq == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], seq)
        else:
            runs.append((seq, seq))
    return runs
