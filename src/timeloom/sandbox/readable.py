"""Waits until a file descriptor is readable."""

import asyncio
import os


async def wait_readable(descriptor: int) -> None:
    """Wait until the descriptor has data or has ended, or the process of the pidfd has exited."""
    # A duplicate, because an event loop has only one reader per descriptor.
    mine = os.dup(descriptor)
    try:
        await wait_readable_alone(mine)
    finally:
        os.close(mine)


async def wait_readable_alone(descriptor: int) -> None:
    """Wait like `wait_readable`, without a further descriptor; only one task at a time may wait for each."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: readable.done() or readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)
