"""Checks that a follower gets each entry once, in order, until the conversation or store ends."""

import asyncio

from timeloom.testing.store_contract.fixtures import (
    CONVERSATION,
    Open,
    header,
    next_entries,
    remaining_entries,
    scoped_store,
    thought,
)


async def a_follower_gets_what_is_there_and_each_new_entry_once_in_order(open_store: Open) -> None:
    """No entry is missed between the last read and the next wait."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header(), thought("1"), thought("2")])
        everything, later = store.follow(CONVERSATION), store.follow(CONVERSATION, 4)
        assert [entry.seq for entry in await next_entries(everything, 3)] == [1, 2, 3]
        waiting = asyncio.create_task(next_entries(everything, 600))
        waiting_later = asyncio.create_task(next_entries(later, 599))
        for tail in range(3, 603, 2):
            await store.append(CONVERSATION, tail, [thought("x"), thought("y")])
        assert [entry.seq for entry in await waiting] == list(range(4, 604))
        assert [entry.seq for entry in await waiting_later] == list(range(5, 604))


async def following_ends_when_the_conversation_is_deleted(open_store: Open) -> None:
    """Also if its id is used again at once."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        entries = store.follow(CONVERSATION)
        assert len(await next_entries(entries, 1)) == 1
        remaining = asyncio.create_task(remaining_entries(entries))
        await asyncio.sleep(0)
        await store.delete(CONVERSATION)
        # A new conversation with the same id is a different conversation.
        await store.append(CONVERSATION, 0, [header(), thought("another")])
        assert await remaining == []


async def following_ends_when_the_store_closes(open_store: Open) -> None:
    """A waiting follower ends instead of waiting for ever."""
    async with scoped_store(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        entries = store.follow(CONVERSATION)
        await next_entries(entries, 1)
        remaining = asyncio.create_task(remaining_entries(entries))
        await asyncio.sleep(0)
        await store.close()
        assert await remaining == []
