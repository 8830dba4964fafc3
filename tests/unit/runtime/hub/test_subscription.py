"""Mailboxes and streams: bounded, in order, and without gaps for a reader who joins at any time."""

import asyncio
from contextlib import aclosing

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.hub import DelayedStore
from tests.harness.turn import HEADER, run
from timeloom.app import open_session
from timeloom.core.blocks import Completion, RoundStarted, Titled, TurnStarted
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Entry
from timeloom.runtime.hub.events import ChatBlock, ChatDelta, ConversationState, ConvStatus, Heartbeat
from timeloom.runtime.hub.subscription import TOO_SLOW, Broadcaster, StoreTail, SubscriberQueue, Subscription
from timeloom.stores.in_memory.store import MemoryStore


def delta(text: str, channel: str = "answer") -> ChatDelta:
    return ChatDelta(turn_id=TurnId("turn_1"), channel=channel, index=0, text=text)


def opened(most_bytes: int = 10_000) -> tuple[Broadcaster, SubscriberQueue]:
    channel = Broadcaster()
    mailbox = channel.join(most_bytes)
    mailbox.open()
    return channel, mailbox


def test_deltas_that_wait_are_taken_together_where_they_belong_together() -> None:
    async def check() -> None:
        channel, mailbox = opened()
        for text in ("a", "b", "c"):
            channel.publish_delta(delta(text))
        channel.publish_delta(delta("d", "thinking"))
        channel.publish_delta(delta("e"))
        taken = [await mailbox.take(1) for _ in range(3)]
        assert [one and one[0] for one in taken] == [delta("abc"), delta("d", "thinking"), delta("e")]
        assert await mailbox.take(0.001) is None

    run(check)


def test_a_reader_that_takes_too_little_hears_that_and_nothing_else() -> None:
    async def check() -> None:
        channel, mailbox = opened(1000)
        for _ in range(100):
            channel.publish_delta(delta("x" * 50))
        assert mailbox.ended.is_set()
        assert await mailbox.take(1) == (TOO_SLOW, 0)
        channel.publish_delta(delta("more"))
        assert await mailbox.take(0.001) is None

    run(check)


def test_one_that_takes_what_comes_is_never_too_slow() -> None:
    async def check() -> None:
        channel, mailbox = opened(1000)
        for _ in range(100):
            channel.publish_delta(delta("x" * 500))
            assert await mailbox.take(1) == (delta("x" * 500), 0)
        assert not mailbox.ended.is_set()

    run(check)


def test_nothing_waits_for_a_reader_that_is_still_at_the_store() -> None:
    async def check() -> None:
        channel = Broadcaster()
        mailbox = channel.join(100)
        for _ in range(100):
            channel.publish_delta(delta("x" * 50))
        assert not mailbox.ended.is_set()
        channel.leave(mailbox)
        assert not channel.has_readers

    run(check)


async def status() -> ConvStatus:
    return ConvStatus(conversation_id=ConversationId("conv_1"), state="idle", tail=0)


def test_a_delta_is_not_told_after_the_block_that_ended_it() -> None:
    async def check() -> None:
        store, channel = HeldUpStore(), Broadcaster()
        async with await open_session(store, None, HEADER) as session:
            channel.publish(StoreTail(1))
            stream = Subscription(store, "t", session.conversation, channel.join(10_000), 1)
            async with aclosing(stream.events(status, 60)) as events:
                await anext(events)
                coming = asyncio.create_task(anext(events))
                await store.looked.wait()
                # The reader has the block from the store before it comes to what was told live.
                channel.publish_delta(delta("early"))
                channel.publish_delta(delta("a thought", "thinking"))
                (entry,) = await session.append([Completion(text="early")], NO_TURN)
                store.goes_on.set()
                told = [await coming, await anext(events)]
                channel.publish_entry(entry)
                channel.publish_delta(delta("late"))
                told += [await anext(events) for _ in range(2)]
            assert [one.text for one in told if isinstance(one, ChatDelta)] == ["a thought", "late"]
            assert [one.seq for one in told if isinstance(one, ChatBlock)] == [2]

    run(check)


@given(st.lists(st.sampled_from(["append", "elsewhere", "join", "pause"]), min_size=4, max_size=24), st.integers(0, 3))
def test_wherever_a_reader_joins_it_hears_each_block_once_and_in_order(deeds: list[str], after: int) -> None:
    async def check() -> None:
        store, channel, is_told = DelayedStore(), Broadcaster(), True
        async with await open_session(store, None, HEADER) as session:

            async def listen(start: int) -> list[int]:
                stream = Subscription(store, "t", session.conversation, channel.join(1_000_000), start)
                seqs: list[int] = []
                async with aclosing(stream.events(status, 60)) as events:
                    async for event in events:
                        if isinstance(event, ChatBlock):
                            seqs.append(event.seq)
                            if b"the last" in bytes(event.block):
                                break
                return seqs

            session.listen(lambda entry: channel.publish_entry(entry) if is_told else None)
            readers: list[tuple[int, asyncio.Task[list[int]]]] = []
            for deed in deeds:
                # What is stored without being told is as if by another process; what is told next shows the gap.
                is_told = deed != "elsewhere"
                if deed == "join":
                    start = min(after, session.views.tail)
                    readers.append((start, asyncio.create_task(listen(start))))
                elif deed == "pause":
                    await asyncio.sleep(0)
                else:
                    await session.append([Titled(text="t")], NO_TURN)
            is_told = True
            await session.append([Titled(text="the last")], NO_TURN)
            for start, reader in readers:
                assert await reader == list(range(start + 1, session.views.tail + 1))

    run(check)


class HeldUpStore(MemoryStore):
    """A store that is held up on its way back from looking for more."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        entries = await super().load(conversation, after, limit)
        if not entries:
            self.looked.set()
            await self.goes_on.wait()
        return entries


def test_what_is_stored_while_the_reader_goes_over_to_live_is_told() -> None:
    async def check() -> None:
        store, channel = HeldUpStore(), Broadcaster()
        async with await open_session(store, None, HEADER) as session:
            session.listen(channel.publish_entry)
            stream = Subscription(store, "t", session.conversation, channel.join(1000), 1)
            async with aclosing(stream.events(status, 60)) as events:
                await anext(events)
                coming = asyncio.create_task(anext(events))
                await store.looked.wait()
                await session.append([Titled(text="t")], NO_TURN)
                store.goes_on.set()
                event = await coming
                assert isinstance(event, ChatBlock) and event.seq == 2

    run(check)


def test_a_silent_stream_beats() -> None:
    async def check() -> None:
        store = MemoryStore()
        async with await open_session(store, None, HEADER) as session:
            _, mailbox = opened()
            stream = Subscription(store, "t", session.conversation, mailbox, 1)
            async with aclosing(stream.events(status, 0.001)) as events:
                told = [await anext(events) for _ in range(4)]
            assert isinstance(told[-1], Heartbeat)

    run(check)


def test_what_comes_without_waiting_is_known_to_come() -> None:
    async def check() -> None:
        store, channel = MemoryStore(), Broadcaster()
        async with await open_session(store, None, HEADER) as session:
            session.listen(channel.publish_entry)
            mailbox = channel.join(10_000)
            stream = Subscription(store, "t", session.conversation, mailbox, 0)
            async with aclosing(stream.events(status, 60)) as events:
                told = [await anext(events) for _ in range(2)]
                assert stream.has_more
                told.append(await anext(events))
                assert isinstance(told[-1], ConvStatus) and not stream.has_more
                channel.publish(StoreTail(1))
                assert not stream.has_more
                assert await mailbox.take(1)
                channel.publish_delta(delta("before"))
                await session.append([TurnStarted(n=1)], session.new_turn_id())
                channel.publish_delta(delta("after"))
                assert stream.has_more
                names = [type(await anext(events)).__name__]
                while stream.has_more:
                    names.append(type(await anext(events)).__name__)
                assert names == ["ChatDelta", "ChatBlock", "ChatStart", "ChatDelta"]
                channel.publish(StoreTail(session.views.tail))
                assert not stream.has_more

    run(check)


def test_what_a_block_has_that_was_read_ahead_is_not_known_to_come() -> None:
    async def check() -> None:
        store, channel = MemoryStore(), Broadcaster()
        async with await open_session(store, None, HEADER) as session:
            channel.publish(StoreTail(1))
            stream = Subscription(store, "t", session.conversation, channel.join(10_000), 1)
            async with aclosing(stream.events(status, 60)) as events:
                told = [await anext(events) for _ in range(2)]
                await session.append([Titled(text="elsewhere")], NO_TURN)
                channel.publish(StoreTail(2))
                channel.publish_delta(delta("early"))
                await session.append([Completion(text="early")], NO_TURN)
                told += [await anext(events) for _ in range(2)]
                while stream.has_more:
                    told.append(await anext(events))
            assert [one.seq for one in told if isinstance(one, ChatBlock)] == [2, 3]
            assert not [one for one in told if isinstance(one, ChatDelta)]

    run(check)


def test_who_was_there_before_hears_from_its_own_entry_on() -> None:
    async def check() -> None:
        store, channel = MemoryStore(), Broadcaster()
        async with await open_session(store, None, HEADER) as session:
            session.listen(channel.publish_entry)
            mailbox = channel.join(10_000)
            mailbox.open()
            channel.publish_delta(delta("of the round before"))
            await session.append([RoundStarted(round=1)], NO_TURN)
            channel.publish_delta(delta("of the round"))
            await session.append([Titled(text="its own")], NO_TURN)
            channel.publish_delta(delta(" that runs"))
            stream = Subscription(store, "t", session.conversation, mailbox, 2)
            stream.join_live()
            assert stream.has_more
            async with aclosing(stream.events(status, 60)) as events:
                told = [await anext(events) for _ in range(4)]
            assert isinstance(told[0], ConvStatus)
            assert [one.seq for one in told if isinstance(one, ChatBlock)] == [3]
            assert [one.text for one in told if isinstance(one, ChatDelta)] == ["of the round", " that runs"]
            mailbox.end(TOO_SLOW)
            assert mailbox.take_before(9) == []
            assert await mailbox.take(1) == (TOO_SLOW, 0)

    run(check)


def status_at(tail: int, state: ConversationState = "running") -> ConvStatus:
    return ConvStatus(conversation_id=ConversationId("conv_1"), state=state, tail=tail)


async def statuses_of(before: list[ConvStatus], first: ConvStatus, after: list[ConvStatus]) -> list[ConvStatus]:
    """Return the statuses that a reader gets: some are published before its first is determined, and some after."""
    store, channel = MemoryStore(), Broadcaster()

    async def determine() -> ConvStatus:
        for one in before:
            channel.publish(one)
        return first

    async with await open_session(store, None, HEADER) as session:
        mailbox = channel.join(100_000)
        mailbox.open()
        stream = Subscription(store, "t", session.conversation, mailbox, 1)
        stream.join_live()
        async with aclosing(stream.events(determine, 60)) as events:
            got = [await anext(events)]
            for one in after:
                channel.publish(one)
            channel.publish_delta(delta("the end"))
            while not isinstance(event := await anext(events), ChatDelta):
                got.append(event)
    return [event for event in got if isinstance(event, ConvStatus)]


def test_a_reader_gets_no_older_status_after_a_newer_one() -> None:
    async def check() -> None:
        older, newer, newest = status_at(5), status_at(9), status_at(12, "idle")
        assert await statuses_of([older], newer, [newest]) == [newer, newest]
        assert await statuses_of([], newer, [older, newest, newer]) == [newer, newest]

    run(check)


def test_a_status_of_the_same_tail_is_told_again_unless_another_was_determined_after_it() -> None:
    async def check() -> None:
        running, interrupted = status_at(9), status_at(9, "interrupted")
        assert await statuses_of([running], running, []) == [running, running]
        assert await statuses_of([running], interrupted, []) == [interrupted]
        assert await statuses_of([], interrupted, [running]) == [interrupted, running]

    run(check)


@given(st.data())
def test_the_tails_of_the_statuses_that_a_reader_gets_never_fall(data: st.DataObject) -> None:
    statuses = st.lists(st.builds(status_at, st.integers(0, 5), st.sampled_from(["running", "idle", "waiting"])))
    before, after = data.draw(statuses), data.draw(statuses)
    first = data.draw(st.builds(status_at, st.integers(0, 5)))

    async def check() -> None:
        tails = [one.tail for one in await statuses_of(before, first, after)]
        assert tails == sorted(tails)

    run(check)


def test_a_status_that_is_not_told_does_not_hold_back_what_was() -> None:
    async def check() -> None:
        store, channel = MemoryStore(), Broadcaster()
        async with await open_session(store, None, HEADER) as session:
            mailbox = channel.join(100_000)
            mailbox.open()
            stream = Subscription(store, "t", session.conversation, mailbox, 1)
            stream.join_live()

            async def determine() -> ConvStatus:
                return status_at(9)

            async with aclosing(stream.events(determine, 60)) as events:
                assert await anext(events) == status_at(9)
                channel.publish(status_at(5))
                assert not stream.has_more
                channel.publish(status_at(10))
                assert await anext(events) == status_at(10)

    run(check)
