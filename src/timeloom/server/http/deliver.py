"""Delivers a stream to a client until it ends, the client disconnects, or the last event times out."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from timeloom.runtime.hub.subscription import Stream


async def serve_reader(
    stream: Stream, leave_s: float, sending: Coroutine[Any, Any, None], leaving: Coroutine[Any, Any, None]
) -> None:
    """Run both coroutines until one is done, or until the timeout after the end of the stream; cancel the other."""
    tasks = {
        asyncio.create_task(sending),
        asyncio.create_task(leaving),
        asyncio.create_task(_left_behind(stream, leave_s)),
    }
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()


async def _left_behind(stream: Stream, leave_s: float) -> None:
    await stream.ended.wait()
    await asyncio.sleep(leave_s)
