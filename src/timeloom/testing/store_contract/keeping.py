"""Checks of snapshots, closing, reopening and two stores that share one data folder."""

import asyncio

from timeloom.core.blocks import (
    Attachment,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import ConversationId
from timeloom.core.payload import ref_of
from timeloom.ports.journal import ConflictError
from timeloom.ports.reader import ConversationQuery, OpenTurnQuery
from timeloom.ports.store import Store
from timeloom.testing.store_contract.fixtures import (
    CONVERSATION,
    PATH,
    Open,
    draft,
    expect_error,
    header,
    next_entries,
    remaining_entries,
    scoped_store,
    thought,
)


async def the_newest_snapshot_of_a_version_comes_back(open_store: Open) -> None:
    """Versions are separate, and an older snapshot does not replace a newer one."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header(), thought("x"), thought("y")])
        assert await store.load_snapshot(CONVERSATION, "v1") is None
        for seq, version, data in ((1, "v1", b"one"), (3, "v1", b"three\n\x00"), (2, "v1", b"two"), (2, "v/2", b"")):
            await store.save_snapshot(CONVERSATION, seq, version, data)
        assert await store.load_snapshot(CONVERSATION, "v1") == (3, b"three\n\x00")
        assert await store.load_snapshot(CONVERSATION, "v/2") == (2, b"")
        assert await store.drop_snapshots() == 2
        assert await store.load_snapshot(CONVERSATION, "v1") is None
        assert await store.drop_snapshots() == 0


async def a_snapshot_ahead_of_the_tail_is_not_given(open_store: Open) -> None:
    """Happens if the journal was restored from an older copy."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        await store.save_snapshot(CONVERSATION, 2, "v1", b"from the future")
        assert await store.load_snapshot(CONVERSATION, "v1") is None


async def a_closed_store_says_so(open_store: Open) -> None:
    """A second close does nothing; every other operation raises `store_closed`."""
    store = await open_store()
    await store.append(CONVERSATION, 0, [header()])
    await store.close()
    await store.close()
    await expect_error("store_closed", store.append(CONVERSATION, 1, [thought("x")]))
    await expect_error("store_closed", store.load(CONVERSATION))
    await expect_error("store_closed", store.delete(CONVERSATION))
    await expect_error("store_closed", store.scrub())
    await expect_error("store_closed", store.conversations(ConversationQuery(tenant="t")))
    await expect_error("store_closed", store.open_turns())
    await expect_error("store_closed", store.conversations_with_open_turn(OpenTurnQuery(tenant="t", project="p")))
    await expect_error("store_closed", store.having_open_turn([CONVERSATION]))
    await expect_error("store_closed", store.verify())


async def appends_that_were_accepted_before_a_close_are_finished(open_store: Open) -> None:
    """Closing waits for accepted appends."""
    store = await open_store()
    names = [ConversationId(f"conv_{n}") for n in range(30)]
    appends = [asyncio.create_task(store.append(name, 0, [header()])) for name in names]
    await asyncio.sleep(0)
    await store.close()
    assert all(len(entries) == 1 for entries in await asyncio.gather(*appends))


async def everything_is_there_after_opening_again(open_store: Open) -> None:
    """Promise 1 of the journal, for a store that was closed normally."""
    async with scoped_store(open_store) as store:
        picture = draft(Attachment(artifact_path=PATH, mime="image/png", data=b"\x89PNG"))
        await store.append(CONVERSATION, 0, [header(), picture, draft(UserPrompt(text="hello")), thought("x" * 40_000)])
        await store.append(ConversationId("conv_b"), 0, [header()])
        await store.delete(ConversationId("conv_b"))
        await store.append(ConversationId("conv_c"), 0, [header(), draft(TurnStarted(n=1))])
        before = await store.load(CONVERSATION), await store.info(CONVERSATION), await store.verify()
    async with scoped_store(open_store) as store:
        assert (await store.load(CONVERSATION), await store.info(CONVERSATION), await store.verify()) == before
        assert await store.open_turns() == ["conv_c"]
        assert await store.read_blob("tenant", ref_of(b"\x89PNG")) == b"\x89PNG"
        found = await store.conversations(ConversationQuery(tenant="tenant", words="hel"))
        assert [info.id for info in found.conversations] == [CONVERSATION]
        await store.append(CONVERSATION, 4, [thought("on")])


async def two_stores_of_one_place_are_one(open_store: Open) -> None:
    """Each store reads and follows the entries of the other and conflicts with its appends."""
    async with scoped_store(open_store) as left, scoped_store(open_store) as right:
        await left.append(CONVERSATION, 0, [header()])
        entries = right.follow(CONVERSATION)
        await next_entries(entries, 1)
        waiting = asyncio.create_task(next_entries(entries, 2))
        await left.append(CONVERSATION, 1, [thought("from the left")])
        await expect_error("conflict", right.append(CONVERSATION, 1, [thought("too late")]))
        await right.append(CONVERSATION, 2, [thought("from the right")])
        assert [entry.seq for entry in await waiting] == [2, 3]
        remaining = asyncio.create_task(remaining_entries(entries))
        await left.delete(CONVERSATION)
        assert await remaining == []
        await expect_error("conversation_unknown", right.load(CONVERSATION))


async def of_many_stores_that_append_at_one_tail_one_wins(open_store: Open) -> None:
    """Promise 3 of the journal across stores."""

    async def race(store: Store, name: str) -> int:
        """Append until the conversation is long enough; returns how many appends succeeded."""
        tail, won = 1, 0
        while tail < 40:
            block = Attachment(artifact_path=PATH, mime="a/b", data=f"payload {tail % 5}".encode())
            try:
                tail = (await store.append(CONVERSATION, tail, [thought(name), draft(block)]))[-1].seq
                won += 1
            except ConflictError as error:
                tail = error.tail
        return won

    async with scoped_store(open_store) as left, scoped_store(open_store) as right:
        await left.append(CONVERSATION, 0, [header()])
        won = await asyncio.gather(race(left, "l"), race(left, "ll"), race(right, "r"), race(right, "rr"))
        entries = await left.load(CONVERSATION)
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        assert sum(won) * 2 + 1 == len(entries)
        assert (await right.verify()).findings == ()
