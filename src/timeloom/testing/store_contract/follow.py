"""Checks of following: each entry once, in order, to the end."""

import asyncio

from timeloom.testing.store_contract.fixtures import CONVERSATION, Open, header, opened, rest, take, thought


async def a_follower_gets_what_is_there_and_each_new_entry_once_in_order(open_store: Open) -> None:
    """No entry is missed between reading and waiting."""
    async with opened(open_store) as store:
        await store.append(CONVERSATION, 0, [header(), thought("1"), thought("2")])
        everything, later = store.follow(CONVERSATION), store.follow(CONVERSATION, 4)
        assert [entry.seq for entry in await take(everything, 3)] == [1, 2, 3]
        waiting = asyncio.create_task(take(everything, 600))
        waiting_later = asyncio.create_task(take(later, 599))
        for tail in range(3, 603, 2):
            await store.append(CONVERSATION, tail, [thought("x"), thought("y")])
        assert [entry.seq for entry in await waiting] == list(range(4, 604))
        assert [entry.seq for entry in await waiting_later] == list(range(5, 604))


async def following_ends_when_the_conversation_is_deleted(open_store: Open) -> None:
    """Also when its name is used again at once."""
    async with opened(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        entries = store.follow(CONVERSATION)
        assert len(await take(entries, 1)) == 1
        remaining = asyncio.create_task(rest(entries))
        await asyncio.sleep(0)
        await store.delete(CONVERSATION)
        # The one that has its name now is another conversation.
        await store.append(CONVERSATION, 0, [header(), thought("another")])
        assert await remaining == []


async def following_ends_when_the_store_closes(open_store: Open) -> None:
    """Nobody waits for ever."""
    async with opened(open_store) as store:
        await store.append(CONVERSATION, 0, [header()])
        entries = store.follow(CONVERSATION)
        await take(entries, 1)
        remaining = asyncio.create_task(rest(entries))
        await asyncio.sleep(0)
        await store.close()
        assert await remaining == []
