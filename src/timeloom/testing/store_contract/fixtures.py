"""Drafts, an opened store and assertions for the checks of the store contract."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final

from timeloom.core.blocks import (
    AnyBlock,
    ConversationStarted,
    Thinking,
    Titled,
)
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Draft, Entry
from timeloom.ports.store import Store

Open = Callable[[], Awaitable[Store]]
Check = Callable[[Open], Coroutine[None, None, None]]

TURN: Final = TurnId("turn_1770603271112_2yz1lp")
PATH: Final = f"fi:{TURN}.files/a.png"
CONVERSATION: Final = ConversationId("conv_a")
WAIT_S: Final = 30.0
"""Timeout of a check in seconds. A store that keeps the contract never reaches it."""


@asynccontextmanager
async def scoped_store(open_store: Open) -> AsyncGenerator[Store]:
    """Yield the store and close it at the end."""
    store = await open_store()
    try:
        yield store
    finally:
        await store.close()


def draft(block: AnyBlock, at: int = 0) -> Draft:
    """Return a draft of the block at a time that grows with `at`, in seconds."""
    turn = NO_TURN if isinstance(block, ConversationStarted | Titled) else TURN
    return Draft(turn, f"2026-02-09T02:{at // 60 % 60:02d}:{at % 60:02d}.000000Z", block)


def header(tenant: str = "tenant", project: str = "project", user: str = "user", at: int = 0) -> Draft:
    """Return the first draft of a conversation."""
    return draft(ConversationStarted(tenant=tenant, project=project, user=user), at)


def thought(text: str, at: int = 0) -> Draft:
    """Return a draft with a small `Thinking` block."""
    return draft(Thinking(round=1, text=text), at)


async def expect_error(code: str, attempt: Awaitable[object]) -> CodedError:
    """Await the attempt and return the error with that code, which it must raise."""
    try:
        await attempt
    except CodedError as error:
        assert error.code == code, f"the code {code} was expected, got {error.code}: {error}"
        return error
    raise AssertionError(f"{code} was expected, and nothing was raised")


async def next_entries(entries: AsyncIterator[Entry], count: int) -> list[Entry]:
    """Return the next `count` entries of a follower."""
    async with asyncio.timeout(WAIT_S):
        return [await anext(entries) for _ in range(count)]


async def remaining_entries(entries: AsyncIterator[Entry]) -> list[Entry]:
    """Return all entries of a follower until it ends."""
    async with asyncio.timeout(WAIT_S):
        return [entry async for entry in entries]
