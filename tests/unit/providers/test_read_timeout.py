"""Patience ends a wait that takes too long, and none that does not."""

import asyncio
from collections.abc import Coroutine

import pytest

from timeloom.providers.read_timeout import ReadTimeout


def run(check: Coroutine[object, object, None]) -> None:
    asyncio.run(check)


def waiting() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


def test_a_wait_that_takes_too_long_ends() -> None:
    async def check() -> None:
        patience, over, late = ReadTimeout(), waiting(), waiting()
        patience.limit(over, 60)
        over.set_result(None)
        patience.limit(late, 0.01)
        with pytest.raises(TimeoutError):
            await late
        assert over.result() is None

    run(check())


def test_a_timer_that_comes_between_waits_ends_none() -> None:
    async def check() -> None:
        patience, over, late = ReadTimeout(), waiting(), waiting()
        patience.limit(over, 0.0)
        over.set_result(None)
        await asyncio.sleep(0.01)
        patience.limit(late, 0.01)
        with pytest.raises(TimeoutError):
            await late

    run(check())


def test_a_timer_of_an_earlier_wait_leaves_the_next_its_time() -> None:
    async def check() -> None:
        patience, first, second = ReadTimeout(), waiting(), waiting()
        patience.limit(first, 0.01)
        first.set_result(None)
        patience.limit(second, 60)
        await asyncio.sleep(0.05)
        assert not second.done()

    run(check())


def test_who_is_cancelled_from_outside_is_not_told_of_a_timeout() -> None:
    async def wait() -> None:
        wait = waiting()
        ReadTimeout().limit(wait, 0.05)
        await wait

    async def check() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0.1)
        with pytest.raises(asyncio.CancelledError):
            await task

    run(check())
