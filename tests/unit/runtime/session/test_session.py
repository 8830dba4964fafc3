"""The session: appended entries are durable, published in order, and in its views."""

import asyncio
from collections.abc import Coroutine, Sequence

import pytest
from msgspec.structs import replace

from timeloom.core.blocks import (
    ConversationStarted,
    ModelCalled,
    RoundStarted,
    Thinking,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.blocks.extract_payloads import INLINE_BYTES
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import NO_TURN, Draft, Entry
from timeloom.core.view.views import Views
from timeloom.ports.blobs import BlobError
from timeloom.ports.leases import ConversationHeldError, Lease, LeaseLostError
from timeloom.ports.reader import ConversationUnknownError
from timeloom.ports.store import StoreError
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.inbox import Inbox
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.wire.snapshot import encode_views

CONVERSATION = ConversationId("conv_1")
TURN = TurnId("turn_1")
HEADER = ConversationStarted(tenant="t", project="p", user="u", bundle="b")


class FixedClock:
    def __init__(self) -> None:
        self.now = 1_770_603_272_676_425

    def epoch_us(self) -> int:
        self.now += 1
        return self.now


class CountingIds:
    def __init__(self) -> None:
        self.last = 0

    def bits(self) -> int:
        self.last += 1
        return self.last


class FullStore(MemoryStore):
    """A store whose disk can be full."""

    is_full = False

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        if self.is_full:
            raise StoreError("store_unwritable", "the disk is full")
        return await super().append(conversation, expected_tail, drafts, lease)


async def started(store: MemoryStore) -> Session:
    return await Session.start(store, CONVERSATION, HEADER, FixedClock(), CountingIds())


def run(check: Coroutine[object, object, None]) -> None:
    asyncio.run(check)


def test_a_session_appends_publishes_and_resumes() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await started(store)
        heard: list[int] = []
        stop = session.listen(lambda entry: heard.append(entry.seq))
        await session.append([TurnStarted(n=1), UserPrompt(text="hello")], TURN)
        stop()
        await session.append([RoundStarted(round=1)], TURN)
        assert (heard, session.first_user_message) == ([2, 3], "hello")
        assert (session.caller.user, session.caller.bundle) == ("u", "b")
        await session.close()
        again = await Session.resume(store, CONVERSATION, FixedClock(), CountingIds())
        assert encode_views(again.views) == encode_views(session.views)
        assert again.first_user_message == "hello"

    run(check())


def test_a_conversation_has_one_session_at_a_time() -> None:
    async def check() -> None:
        store = MemoryStore()
        async with await Session.start(
            store, CONVERSATION, HEADER, FixedClock(), CountingIds(), holder="the first"
        ) as first:
            with pytest.raises(ConversationHeldError, match="the first"):
                await Session.resume(store, CONVERSATION, FixedClock(), CountingIds())
            await first.append([TurnStarted(n=1)], TURN)
        second = await Session.resume(store, CONVERSATION, FixedClock(), CountingIds(), holder="the second")
        await second.append([TurnStarted(n=2)], TurnId("turn_2"))
        with pytest.raises(LeaseLostError, match="closed"):
            await first.append([TurnStarted(n=3)], TurnId("turn_3"))
        await first.close()
        with pytest.raises(ConversationHeldError, match="the second"):
            await Session.resume(store, CONVERSATION, FixedClock(), CountingIds())

    run(check())


def test_a_session_that_lost_its_conversation_is_over() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await started(store)
        await store.delete(CONVERSATION)
        with pytest.raises(LeaseLostError, match="deleted"):
            await session.append([TurnStarted(n=1)], TURN)
        other = await started(store)
        with pytest.raises(LeaseLostError, match="deleted"):
            await session.append([TurnStarted(n=1)], TURN)
        await session.close()
        await other.append([TurnStarted(n=1)], TURN)

    run(check())


def test_a_session_that_could_not_load_lets_go() -> None:
    class Unreadable(MemoryStore):
        broken = True

        async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
            if self.broken:
                raise StoreError("store_damaged", "for a moment")
            return await super().load(conversation, after, limit)

    async def check() -> None:
        store = Unreadable()
        await (await started(store)).close()
        with pytest.raises(StoreError):
            await Session.resume(store, CONVERSATION, FixedClock(), CountingIds())
        store.broken = False
        await Session.resume(store, CONVERSATION, FixedClock(), CountingIds())

    run(check())


def test_a_session_may_be_closed_after_its_store() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await started(store)
        await store.close()
        await session.close()

    run(check())


def test_a_conversation_nobody_started_cannot_be_resumed() -> None:
    async def check() -> None:
        with pytest.raises(ConversationUnknownError):
            await Session.resume(MemoryStore(), CONVERSATION, FixedClock(), CountingIds())

    run(check())


def test_stored_text_is_read_back_and_neighbours_are_read_together() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await started(store)
        long = "x" * (INLINE_BYTES + 1)
        blocks = [TurnStarted(n=1), UserPrompt(text=long), Thinking(round=1, text="a"), Thinking(round=2, text="b")]
        entries = await session.append(blocks, TURN)
        prompt = entries[1].block
        assert isinstance(prompt, UserPrompt)
        assert isinstance(prompt.text, BlobRef)
        assert await session.text(prompt.text) == long == session.first_user_message
        assert [entry.seq for entry in await session.entries([2, 4, 5])] == [2, 4, 5]
        await session.close()
        again = await Session.resume(store, CONVERSATION, FixedClock(), CountingIds())
        assert again.first_user_message == long

    run(check())


def test_ids_come_from_the_clock_and_the_bits() -> None:
    async def check() -> None:
        session = await started(MemoryStore())
        turn = session.new_turn_id()
        assert turn.startswith("turn_1770603272676_")
        assert session.new_plan_id(turn).startswith(f"plan:{turn}:")
        assert len(session.new_call_id()) == len(session.new_message_id()) == 12
        assert session.now() < session.now()
        assert session.epoch_us() > 0

    run(check())


def test_a_session_without_a_header_has_no_caller() -> None:
    session = Session(MemoryStore(), CONVERSATION, Views(), FixedClock(), CountingIds())
    assert session.caller.tenant == ""


def test_the_inbox_takes_input_only_while_a_turn_runs() -> None:
    async def check() -> None:
        session = await started(MemoryStore())
        inbox = Inbox(session)
        assert await inbox.follow_up("early") is None
        assert await inbox.steer() is None
        await session.append([TurnStarted(n=1), UserPrompt(text="hi")], TURN)
        followed = await inbox.follow_up("and?")
        assert followed is not None
        assert not inbox.interrupt.is_set()
        steered = await inbox.steer("the other way")
        assert steered is not None
        assert inbox.interrupt.is_set()
        assert session.views.progress.unseen == [followed.seq, steered.seq]
        await session.append([TurnEnded(reason="completed")], TURN)
        assert await inbox.steer() is None

    run(check())


def test_the_header_belongs_to_no_turn() -> None:
    async def check() -> None:
        session = await started(MemoryStore())
        (entry,) = await session.entries([1])
        assert entry.turn_id == NO_TURN

    run(check())


def test_what_is_noted_is_durable_and_published_with_the_next_append() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await started(store)
        heard: list[int] = []
        watched: list[int] = []
        session.listen(lambda entry: heard.append(entry.seq))
        session.watch(lambda entry: watched.append(entry.seq))
        await session.append([TurnStarted(n=1)], TURN)
        (noted,) = await session.append_deferred([RoundStarted(round=1)], TURN)
        assert (noted.seq, session.views.tail, session.views.progress.round) == (3, 3, 1)
        assert (heard, watched, len(await store.load(CONVERSATION))) == ([2], [2, 3], 2)
        assert await session.entries([2, 3]) == [*await store.load(CONVERSATION, after=1), noted]
        assert [entry.seq for entry in await session.append([UserPrompt(text="hello")], TURN)] == [4]
        assert (heard, watched) == ([2, 3, 4], [2, 3, 4])
        assert await store.load(CONVERSATION, after=2, limit=1) == [noted]

    run(check())


@pytest.mark.parametrize("size", [1, INLINE_BYTES])
def test_half_a_character_is_stored_as_its_replacement_and_later_appends_succeed(size: int) -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await started(store)
        text = "a\ud83d" * size
        await session.append_deferred([Thinking(round=1, text=text)], TURN)
        await session.append([UserPrompt(text=text)], TURN)
        *_, thought, message = await store.load(CONVERSATION)
        assert isinstance(thought.block, Thinking)
        assert isinstance(message.block, UserPrompt)
        for stored in (thought.block.text, message.block.text):
            assert await session.text(stored) == "a\ufffd" * size

    run(check())


def test_what_is_large_is_not_only_noted() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await started(store)
        await session.append_deferred([RoundStarted(round=1)], TURN)
        await session.append_deferred([UserPrompt(text="x" * 100_000)], TURN)
        assert len(await store.load(CONVERSATION)) == session.views.tail == 3

    run(check())


def test_what_was_noted_is_kept_by_a_close_and_survives_a_failed_append() -> None:
    async def check() -> None:
        store = FullStore()
        session = await started(store)
        await session.append([TurnStarted(n=1)], TURN)
        await session.append_deferred([RoundStarted(round=1)], TURN)
        store.is_full = True
        with pytest.raises(StoreError, match="full"):
            await session.append([UserPrompt(text="hello")], TURN)
        store.is_full = False
        await session.close()
        again = await Session.resume(store, CONVERSATION, FixedClock(), CountingIds())
        assert encode_views(again.views) == encode_views(session.views)
        assert again.views.tail == 3

    run(check())


def test_nothing_is_noted_in_a_session_that_is_over() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await started(store)
        await session.append_deferred([TurnStarted(n=1)], TURN)
        await store.delete(CONVERSATION)
        with pytest.raises(LeaseLostError):
            await session.flush()
        with pytest.raises(LeaseLostError):
            await session.append_deferred([RoundStarted(round=1)], TURN)
        await session.close()

    run(check())


def test_a_session_that_cannot_keep_what_was_noted_lets_go_all_the_same() -> None:
    async def check() -> None:
        store = FullStore()
        session = await started(store)
        await session.append_deferred([TurnStarted(n=1)], TURN)
        store.is_full = True
        with pytest.raises(StoreError, match="full"):
            await session.close()
        again = await Session.resume(store, CONVERSATION, FixedClock(), CountingIds())
        assert again.views.tail == 1

    run(check())


def test_a_conversation_that_begins_is_there_with_its_first_append_and_held() -> None:
    async def check() -> None:
        store = FullStore()
        session = await Session.start_deferred(store, CONVERSATION, HEADER, FixedClock(), CountingIds())
        with pytest.raises(ConversationUnknownError):
            await store.info(CONVERSATION)
        heard: list[int] = []
        session.listen(lambda entry: heard.append(entry.seq))
        await session.append([TurnStarted(n=1), UserPrompt(text="go")], TURN)
        assert heard == [1, 2, 3] and session.pending_entries == ()
        with pytest.raises(ConversationHeldError):
            await store.acquire(CONVERSATION, "another")
        await session.close()
        await store.acquire(CONVERSATION, "another")

    run(check())


@pytest.mark.parametrize("tries", [True, False])
def test_a_conversation_whose_first_append_failed_or_never_came_is_not_begun_by_its_end(tries: bool) -> None:
    async def check() -> None:
        store = FullStore()
        session = await Session.start_deferred(store, CONVERSATION, HEADER, FixedClock(), CountingIds())
        if tries:
            store.is_full = True
            with pytest.raises(StoreError):
                await session.append([TurnStarted(n=1), UserPrompt(text="go")], TURN)
            store.is_full = False
            with pytest.raises(LeaseLostError):
                await session.append([TurnStarted(n=1), UserPrompt(text="go")], TURN)
        await session.close()
        assert await store.conversation_ids() == []

    run(check())


def test_who_waits_for_what_was_noted_hears_that_it_is_durable() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await started(store)
        assert session.wait_until_durable().done()
        await session.append_deferred([TurnStarted(n=1), UserPrompt(text="go")], TURN)
        settled, left = session.wait_until_durable(), session.wait_until_durable()
        left.cancel()
        assert not settled.done()
        await session.append([RoundStarted(round=1)], TURN)
        await settled
        assert (await store.info(CONVERSATION)).tail == 4

    run(check())


def test_what_was_refused_to_who_waited_for_it_is_not_stored_later() -> None:
    async def check() -> None:
        store = FullStore()
        session = await started(store)
        await session.append_deferred([TurnStarted(n=1), UserPrompt(text="go")], TURN)
        settled = session.wait_until_durable()
        store.is_full = True
        with pytest.raises(StoreError, match="full"):
            await session.flush()
        with pytest.raises(StoreError, match="full"):
            await settled
        store.is_full = False
        with pytest.raises(LeaseLostError):
            await session.append([RoundStarted(round=1)], TURN)
        await session.close()
        assert (await store.info(CONVERSATION)).tail == 1

    run(check())


def test_what_refers_to_a_payload_that_is_gone_can_be_appended_again_with_it() -> None:
    async def check() -> None:
        store = MemoryStore()
        session = await started(store)
        await session.append_deferred([TurnStarted(n=1)], TURN)
        settled = session.wait_until_durable()
        lost = ModelCalled(round=1, model="m", request_sha256="0", system=BlobRef("0" * 64, 9000))
        with pytest.raises(BlobError):
            await session.append([lost], TURN)
        assert not settled.done()
        await session.append([replace(lost, system="s" * 9000)], TURN)
        await settled

    run(check())
