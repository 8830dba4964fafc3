"""Work that is done to its end, whoever is cancelled meanwhile."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def uncancelled(work: Awaitable[T]) -> T:
    """What the work gives; a cancellation of whoever waits for it goes on when it is done."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
