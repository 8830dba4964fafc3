"""Giving up: what is taken for somebody who is cancelled while waiting for it is given back."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from timeloom.core.codes import CodedError

T = TypeVar("T")


async def taken(take: Coroutine[object, object, T], give_back: Callable[[T], Awaitable[None]]) -> T:
    """What `take` returns. Where the caller is cancelled before it has that, it is given back."""
    taking = asyncio.ensure_future(take)
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        # Nothing was taken where it was refused, or where the loop ends and cancels the taking as well.
        with contextlib.suppress(CodedError, asyncio.CancelledError):
            await give_back(await taking)
        raise
