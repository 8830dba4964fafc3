"""Checks that a conversation has one holder and that an ended lease has no effect."""

import asyncio
import contextlib

from timeloom.core.ids import ConversationId
from timeloom.ports.leases import ConversationHeldError, Lease
from timeloom.testing.store_contract.fixtures import CONVERSATION, Open, expect_error, header, scoped_store, thought


async def a_conversation_has_one_holder_at_a_time(open_store: Open) -> None:
    """A second holder gets an error that names the first; after a release the conversation is free."""
    async with scoped_store(open_store) as store:
        await expect_error("conversation_unknown", store.acquire(CONVERSATION, "nobody"))
        await expect_error("conversation_unknown", store.is_held(CONVERSATION))
        await store.append(CONVERSATION, 0, [header()])
        assert not await store.is_held(CONVERSATION)
        await store.append(ConversationId("conv_b"), 0, [header()])
        first = await store.acquire(CONVERSATION, "the first\ud800" + "x" * 1000)
        assert first.conversation == CONVERSATION
        assert await store.is_held(CONVERSATION)
        error = await expect_error("conversation_held", store.acquire(CONVERSATION, "the second"))
        assert isinstance(error, ConversationHeldError)
        assert "the first" in str(error) and error.since in str(error)
        assert len(str(error)) < 600
        await store.acquire(ConversationId("conv_b"), "the second")
        await store.release(first)
        assert not await store.is_held(CONVERSATION)
        second = await store.acquire(CONVERSATION, "the second")
        assert second.epoch > first.epoch


async def a_conversation_can_be_held_from_its_first_entry_on(open_store: Open) -> None:
    """`begin` stores the entries and takes the lease, or does neither."""
    async with scoped_store(open_store) as store:
        await expect_error("entry_malformed", store.begin(CONVERSATION, [thought("without a header")], "holder"))
        await expect_error("conversation_unknown", store.info(CONVERSATION))
        entries, lease = await store.begin(CONVERSATION, [header(), thought("first")], "holder")
        assert [entry.seq for entry in entries] == [1, 2]
        assert await store.load(CONVERSATION) == list(entries)
        await expect_error("conversation_held", store.append(CONVERSATION, 2, [thought("without")]))
        await expect_error("conversation_held", store.begin(CONVERSATION, [header()], "another"))
        assert [entry.seq for entry in await store.append(CONVERSATION, 2, [thought("with it")], lease)] == [3]
        await store.release(lease)
        await expect_error("conflict", store.begin(CONVERSATION, [header()], "another"))
        assert not await store.is_held(CONVERSATION)
        assert (await store.verify()).findings == ()


async def what_is_held_takes_appends_with_its_lease_only(open_store: Open) -> None:
    """Promise 7 of the journal; leases do not change the list."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        lease = await store.acquire(CONVERSATION, "holder")
        await expect_error("conversation_held", store.append(CONVERSATION, 1, [thought("without")]))
        other = Lease(CONVERSATION, lease.epoch + 1, "holder")
        await expect_error("lease_lost", store.append(CONVERSATION, 1, [thought("with another")], other))
        before = await store.info(CONVERSATION)
        assert [entry.seq for entry in await store.append(CONVERSATION, 1, [thought("with it")], lease)] == [2]
        await expect_error("conflict", store.append(CONVERSATION, 1, [thought("at a wrong tail")], lease))
        await store.release(lease)
        await expect_error("lease_lost", store.append(CONVERSATION, 2, [thought("after its release")], lease))
        assert [entry.seq for entry in await store.append(CONVERSATION, 2, [thought("free again")])] == [3]
        assert len(await store.load(CONVERSATION)) == 3
        assert (await store.info(CONVERSATION)).started_ts == before.started_ts
        assert (await store.verify()).findings == ()


async def a_lease_that_is_over_changes_nothing(open_store: Open) -> None:
    """An append or release with an ended lease has no effect on the current holder."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        old = await store.acquire(CONVERSATION, "old")
        await store.release(old)
        new = await store.acquire(CONVERSATION, "new")
        await expect_error("lease_lost", store.append(CONVERSATION, 1, [thought("x")], old))
        await store.release(old)
        await expect_error("conversation_held", store.acquire(CONVERSATION, "third"))
        await store.append(CONVERSATION, 1, [thought("y")], new)
        await store.release(new)
        await store.release(new)


async def a_lease_does_not_outlive_its_conversation(open_store: Open) -> None:
    """It is not valid for a new conversation with the same id either."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        old = await store.acquire(CONVERSATION, "old")
        await store.delete(CONVERSATION)
        await expect_error("lease_lost", store.append(CONVERSATION, 0, [header()], old))
        await expect_error("lease_lost", store.append(CONVERSATION, 1, [thought("late")], old))
        await store.release(old)
        await store.append(CONVERSATION, 0, [header()])
        await expect_error("lease_lost", store.append(CONVERSATION, 1, [thought("late")], old))
        new = await store.acquire(CONVERSATION, "new")
        assert new.epoch > old.epoch
        await expect_error("lease_lost", store.append(CONVERSATION, 1, [thought("late")], old))
        await store.append(CONVERSATION, 1, [thought("on")], new)


async def of_many_who_acquire_at_once_one_has_it(open_store: Open) -> None:
    """Each lease has a larger epoch than the one before."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        epochs: list[int] = []
        for _ in range(5):
            racers = (store.acquire(CONVERSATION, f"{racer}") for racer in range(12))
            outcomes = await asyncio.gather(*racers, return_exceptions=True)
            (lease,) = [outcome for outcome in outcomes if isinstance(outcome, Lease)]
            assert sum(isinstance(outcome, ConversationHeldError) for outcome in outcomes) == 11
            epochs.append(lease.epoch)
            await store.release(lease)
        assert epochs == sorted(set(epochs))


async def who_gives_up_while_acquiring_holds_nothing(open_store: Open) -> None:
    """A cancelled caller leaves no lease behind, because it could not release it."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        for steps in range(6):
            task = asyncio.create_task(store.acquire(CONVERSATION, "cancelled"))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await store.release(await task)
            await store.release(await store.acquire(CONVERSATION, "next"))


async def closing_a_store_ends_its_leases(open_store: Open) -> None:
    """Another store on the same data can acquire the lease at once, without a release."""
    async with scoped_store(open_store) as other:
        first = await open_store()
        await first.append(CONVERSATION, 0, [header()])
        lease = await first.acquire(CONVERSATION, "first")
        error = await expect_error("conversation_held", other.acquire(CONVERSATION, "other"))
        assert "first" in str(error) and "process" in str(error)
        await expect_error("conversation_held", other.append(CONVERSATION, 1, [thought("without")]))
        await expect_error("lease_lost", other.append(CONVERSATION, 1, [thought("with another's")], lease))
        await other.release(lease)
        await expect_error("conversation_held", other.acquire(CONVERSATION, "other"))
        await first.close()
        await first.release(lease)
        taken = await other.acquire(CONVERSATION, "other")
        assert taken.epoch > lease.epoch
        await other.append(CONVERSATION, 1, [thought("on")], taken)


async def what_a_holder_left_behind_is_free_without_a_lease_too(open_store: Open) -> None:
    """An append without a lease ends the lease of a closed store."""
    async with scoped_store(open_store) as other:
        first = await open_store()
        await first.append(CONVERSATION, 0, [header()])
        lease = await first.acquire(CONVERSATION, "first")
        await first.close()
        await other.append(CONVERSATION, 1, [thought("without")])
        assert (await other.acquire(CONVERSATION, "other")).epoch > lease.epoch + 1
