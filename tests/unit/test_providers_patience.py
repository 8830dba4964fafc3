"""Patience ends a wait that takes too long, and none that does not."""

import asyncio
from collections.abc import Coroutine

import pytest

from timeloom.providers.patience import Patience


def run(check: Coroutine[object, object, None]) -> None:
    asyncio.run(check)


def test_a_wait_that_takes_too_long_ends() -> None:
    async def check() -> None:
        patience = Patience()
        with patience.limited(60):
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError), patience.limited(0.01):
            await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task
        assert not task.cancelling()

    run(check())


def test_the_time_between_waits_does_not_count() -> None:
    async def check() -> None:
        patience = Patience()
        for _ in range(3):
            with patience.limited(0.05):
                await asyncio.sleep(0)
            await asyncio.sleep(0.06)
        for _ in range(4):
            with patience.limited(0.05):
                await asyncio.sleep(0.03)

    run(check())


def test_who_is_cancelled_from_outside_is_not_told_of_a_timeout() -> None:
    async def wait() -> None:
        with Patience().limited(60):
            await asyncio.Event().wait()

    async def check() -> None:
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(check())
