"""Releases a resource whose caller was cancelled while it was being acquired."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from timeloom.core.codes import CodedError

T = TypeVar("T")


async def acquire_or_release(acquire: Coroutine[object, object, T], release: Callable[[T], Awaitable[None]]) -> T:
    """Return the result of `acquire`. If the caller is cancelled meanwhile, wait for it and pass it to `release`."""
    task = asyncio.ensure_future(acquire)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Nothing was acquired if it was refused, or if the loop is closing and cancelled this task too.
        with contextlib.suppress(CodedError, asyncio.CancelledError):
            await release(await task)
        raise
