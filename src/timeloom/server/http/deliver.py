"""Delivers a stream to a client until it ends, the client disconnects, or the last event times out."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from timeloom.platform.tasks import cancel_and_wait
from timeloom.runtime.hub.subscription import Subscription


async def deliver_until_closed(
    stream: Subscription,
    drain_timeout_s: float,
    send_events: Coroutine[Any, Any, None],
    wait_for_close: Coroutine[Any, Any, None],
) -> None:
    """Run both coroutines until one is done, or until the timeout after the end of the stream; cancel the other."""
    tasks = {
        asyncio.create_task(send_events),
        asyncio.create_task(wait_for_close),
        asyncio.create_task(_wait_for_drain_timeout(stream, drain_timeout_s)),
    }
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait(*tasks)
    for task in done:
        task.result()


async def _wait_for_drain_timeout(stream: Subscription, drain_timeout_s: float) -> None:
    await stream.ended.wait()
    await asyncio.sleep(drain_timeout_s)
