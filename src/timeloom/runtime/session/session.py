"""The session: the only writer of a conversation's timeline."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final, Self, TypeVar

from timeloom.core.blocks import AnyBlock, ConversationStarted, Erased, UserPrompt
from timeloom.core.blocks.extract_payloads import extract_payloads, find_blob_refs
from timeloom.core.blocks.valid_text import with_valid_text
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
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.core.view.views import Views
from timeloom.platform.tasks import run_despite_cancellation
from timeloom.ports.blobs import BlobError
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.ids import Ids
from timeloom.ports.leases import Lease, LeaseLostError
from timeloom.ports.ledger import Ledger
from timeloom.ports.store import Store
from timeloom.ports.tool import Caller
from timeloom.runtime.session.lineage import root_of
from timeloom.runtime.session.load_views import load_views
from timeloom.runtime.session.source_ids import SourceIds

T = TypeVar("T")

EntryListener = Callable[[Entry], None]

HOLDER: Final = "timeloom"
"""Default name of the lease holder, shown to people who are refused. Callers should pass a more specific one."""


class Session:
    """Appends to one conversation and keeps its views at the tail.

    The session holds the conversation's lease until it is closed, so no other process can open the conversation. The
    journal checks the lease at every append. Entries are persisted first and published after: listeners receive only
    durable entries, in order. If another process took the conversation over, an append raises `LeaseLostError`. This
    session is unusable then, and the next one loads the stored entries.
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
        self._pending_holder = ""
        """The lease holder of a conversation that is not in the store yet; empty once it is stored."""
        self._closed_error: LeaseLostError | None = None
        self._clock = clock
        self._ids = ids
        self._lock = asyncio.Lock()
        self._listeners: list[EntryListener] = []
        self._watchers: list[EntryListener] = []
        self._pending: list[Entry] = []
        """Entries that are in the views but not in the journal; the next append stores them."""
        self._durability_waiters: list[asyncio.Future[None]] = []
        """Futures that resolve once the pending entries are durable."""
        self.conversation = conversation
        self.views = views
        self.first_user_message = ""
        """The conversation's first user message."""
        self.source_ids = SourceIds()
        self.root = conversation
        """The root of this conversation's tree; the conversation itself if it has no parent."""

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
        """Return a session of a new conversation, which is stored at once."""
        session = await cls.start_deferred(store, conversation, header, clock, ids, holder=holder)
        await session.flush()
        return session

    @classmethod
    async def start_deferred(
        cls,
        store: Store,
        conversation: ConversationId,
        header: ConversationStarted,
        clock: Clock,
        ids: Ids,
        *,
        holder: str = HOLDER,
    ) -> Self:
        """Return a session of a new conversation, which is stored with the first append.

        If that append fails, the session is unusable.
        """
        session = cls(store, conversation, Views(), clock, ids)
        session.root = await root_of(store, conversation, header.parent)
        session._pending_holder = holder
        await session.append_deferred([header], NO_TURN)
        return session

    @classmethod
    async def resume(
        cls, store: Store, conversation: ConversationId, clock: Clock, ids: Ids, *, holder: str = HOLDER
    ) -> Self:
        """Return a session of a stored conversation.

        Raises `ConversationUnknownError`, or `ConversationHeldError` if another process holds the conversation.
        """
        # The lease comes first, so that nothing can be written between loading and appending.
        lease = await store.acquire(conversation, holder)
        try:
            session = cls(store, conversation, await load_views(store, conversation), clock, ids, lease)
            await session._load_first_message()
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
        """Release the conversation after the running append; a second close does nothing."""
        if self._pending_holder:
            # Closing must not store a conversation that was never appended to.
            self._pending.clear()
        try:
            with contextlib.suppress(LeaseLostError):
                await self.flush()
        finally:
            await self._release_lease()

    async def _release_lease(self) -> None:
        async with self._lock:
            lease, self._lease = self._lease, None
            self._closed_error = self._closed_error or LeaseLostError(self.conversation, "its session was closed")
            if lease:
                # Shielded against cancellation of the caller: no other code could release the lease.
                await asyncio.shield(self._store.release(lease))

    @property
    def caller(self) -> Caller:
        """The tenant, project and user that this conversation belongs to."""
        header = self.views.conversation.header
        if header is None:
            return Caller(tenant="", project="", user="")
        return Caller(tenant=header.tenant, project=header.project, user=header.user, bundle=header.bundle)

    @property
    def ledger(self) -> Ledger:
        """The ledger of the budgets that this conversation shares with others."""
        return self._store.ledger

    @property
    def stored_tail(self) -> int:
        """The last entry that is in the journal; the views may contain pending entries after it."""
        return self.views.tail - len(self._pending)

    @property
    def pending_entries(self) -> tuple[Entry, ...]:
        """The entries that are in the views but not in the journal."""
        return tuple(self._pending)

    def listen(self, listener: EntryListener) -> Callable[[], None]:
        """Call the listener with each entry once it is durable; the returned function removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def watch(self, watcher: EntryListener) -> None:
        """Call the watcher with each entry as soon as the views have it, durable or not."""
        self._watchers.append(watcher)

    async def append_deferred(
        self, blocks: Sequence[AnyBlock], turn_id: TurnId, *, after: int | None = None
    ) -> tuple[Entry, ...]:
        """Return the blocks as entries that become durable with the next append, or never; `after` is as in `append`.

        Use it for blocks that no outside effect depends on and that can be made again after a crash. The views have
        the entries at once; listeners receive them when they are durable. If a block is large enough to need a
        payload, all blocks are appended immediately.
        """
        blocks = list(map(with_valid_text, blocks))
        if not all(map(_is_stored_inline, blocks)):
            return await self.append(blocks, turn_id, after=after)
        async with self._lock:
            if self._closed_error:
                raise self._closed_error
            if after is not None and after != self.views.tail:
                return ()
            ts, tail = self.now(), self.views.tail
            drafts = [Draft(turn_id, ts, block) for block in blocks]
            entries = tuple(to_entry(draft, seq) for seq, draft in enumerate(drafts, tail + 1))
            self._pending += entries
            self._fold_entries(entries, blocks)
        return entries

    def wait_until_durable(self) -> "asyncio.Future[None]":
        """Return a future that resolves once all pending entries are durable.

        If storing them fails, the future has the error, and they are not stored later.
        """
        waiter = asyncio.get_running_loop().create_future()
        if self._pending:
            self._durability_waiters.append(waiter)
        else:
            waiter.set_result(None)
        return waiter

    async def flush(self) -> None:
        """Make the pending entries durable."""
        if self._pending:
            await self.append([], self._pending[-1].turn_id)

    async def append(
        self, blocks: Sequence[AnyBlock], turn_id: TurnId, *, after: int | None = None
    ) -> tuple[Entry, ...]:
        """Append the blocks atomically and return their entries, dated with the current time.

        With `after`, nothing is appended and nothing returned if the timeline already has entries after that seq.
        Cancellation of the caller is raised only after the append, because views must not lag behind the journal.
        Lone surrogates in the blocks become U+FFFD, because no store accepts them.
        """
        blocks = list(map(with_valid_text, blocks))
        async with self._lock:
            if self._closed_error:
                raise self._closed_error
            if after is not None and after != self.views.tail:
                return ()
            ts, pending_count = self.now(), len(self._pending)
            drafts = [*self._pending, *(Draft(turn_id, ts, block) for block in blocks)]
            if not drafts:
                return ()
            try:
                storing = self._store_drafts(self.views.tail - pending_count, drafts)
                stored, cancelled = await run_despite_cancellation(storing)
            except Exception as error:
                self._handle_failed_append(error)
                raise
            self._pending.clear()
            entries = stored[pending_count:]
            self._fold_entries(entries, blocks)
            self._resolve_waiters(None)
        for entry in stored:
            for listener in tuple(self._listeners):
                listener(entry)
        if cancelled:
            raise asyncio.CancelledError
        return entries

    async def _store_drafts(self, tail: int, drafts: Sequence[Draft]) -> tuple[Entry, ...]:
        if not self._pending_holder:
            return await self._store.append(self.conversation, tail, drafts, self._lease)
        stored, self._lease = await self._store.begin(self.conversation, drafts, self._pending_holder)
        self._pending_holder = ""
        return stored

    def _handle_failed_append(self, error: Exception) -> None:
        """Fail the waiters after a failed append; pending entries that were reported as failed are dropped."""
        if isinstance(error, BlobError):
            # The caller can append again, together with the missing payload.
            return
        if isinstance(error, LeaseLostError):
            self._closed_error = error
        elif self._pending_holder or self._durability_waiters:
            self._closed_error = LeaseLostError(self.conversation, "it could not be stored")
            self._pending.clear()
        self._resolve_waiters(error)

    def _resolve_waiters(self, error: Exception | None) -> None:
        waiters, self._durability_waiters = self._durability_waiters, []
        for waiter in waiters:
            # The waiting task may have been cancelled.
            if waiter.done():
                continue
            if error:
                waiter.set_exception(error)
                # Marks the exception as retrieved: the task that appended raises it in any case.
                waiter.exception()
            else:
                waiter.set_result(None)

    async def entries(self, seqs: Sequence[int]) -> list[Entry]:
        """Return the entries with these seqs; consecutive seqs are read together."""
        pending = {entry.seq: entry for entry in self._pending}
        found: list[Entry] = []
        for first, last in _group_consecutive([seq for seq in seqs if seq not in pending]):
            found += await self._store.load(self.conversation, after=first - 1, limit=last - first + 1)
        return [*found, *(pending[seq] for seq in seqs if seq in pending)]

    async def load_snapshot(self, version: str) -> tuple[int, bytes] | None:
        """Return the newest snapshot of that version with its seq, or None."""
        return await self._store.load_snapshot(self.conversation, version)

    async def save_snapshot(self, seq: int, version: str, data: bytes) -> None:
        """Store a snapshot of what was derived from the entries up to that seq."""
        await self._store.save_snapshot(self.conversation, seq, version, data)
        # If another process took the conversation over, it may have erased entries meanwhile.
        later = await self._store.load(self.conversation, after=self.stored_tail)
        if any(isinstance(entry.block, Erased) for entry in later):
            await self._store.drop_snapshots()

    async def payload(self, ref: BlobRef) -> bytes:
        """Return the bytes that the reference names."""
        return await self._store.read_blob(self.caller.tenant, ref)

    async def text(self, text: Text) -> str:
        """Return the text; a reference is read from the store."""
        return text if isinstance(text, str) else (await self.payload(text)).decode("utf-8", "replace")

    def now(self) -> str:
        """Return the current time in the format of blocks."""
        return timestamp(self._clock.epoch_us())

    def epoch_us(self) -> int:
        """Return the current time in microseconds since 1970."""
        return self._clock.epoch_us()

    def new_turn_id(self) -> TurnId:
        """Return a turn id that contains the current time."""
        return make_turn_id(self._clock.epoch_us() // 1000, self._ids.bits())

    def new_call_id(self) -> CallId:
        """Return a new random call id."""
        return make_call_id(self._ids.bits())

    def new_plan_id(self, turn_id: TurnId) -> PlanId:
        """Return a plan id that contains the turn id."""
        return make_plan_id(turn_id, self._ids.bits())

    def new_message_id(self) -> MessageId:
        """Return an id for a message of a user or an external event."""
        return MessageId(make_call_id(self._ids.bits()))

    def _fold_entries(self, entries: Sequence[Entry], blocks: Sequence[AnyBlock]) -> None:
        for entry in entries:
            self.views.add(entry)
            self._remember_first_message(entry, blocks)
            for watcher in self._watchers:
                watcher(entry)

    def _remember_first_message(self, entry: Entry, blocks: Sequence[AnyBlock]) -> None:
        if self.first_user_message or not isinstance(entry.block, UserPrompt):
            return
        # The stored block may hold only a reference to its text; the caller's block has the text.
        given = next(block.text for block in blocks if isinstance(block, UserPrompt))
        self.first_user_message = given if isinstance(given, str) else ""

    async def _load_first_message(self) -> None:
        for turn in self.views.turns.turns:
            for seq in self.views.paths.find(f"ar:{turn}.user.prompt")[:1]:
                (entry,) = await self.entries([seq])
                if isinstance(entry.block, UserPrompt):
                    self.first_user_message = await self.text(entry.block.text)
                return


def _is_stored_inline(block: AnyBlock) -> bool:
    """Return whether the block is stored inline, without a separate payload."""
    stored, payloads = extract_payloads(block)
    return not payloads and not find_blob_refs(stored)


def _group_consecutive(seqs: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for seq in seqs:
        if runs and seq == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], seq)
        else:
            runs.append((seq, seq))
    return runs
