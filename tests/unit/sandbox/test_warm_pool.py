"""The pool of cells: who waits for it, and when it ends."""

import asyncio

import pytest

from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.warm_pool import WarmPool

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Cell:
    """One that is there until it is closed."""

    def __init__(self) -> None:
        self.closed = False

    def is_waiting(self) -> bool:
        return not self.closed

    async def close(self) -> None:
        self.closed = True


async def test_cells_that_wait_are_handed_out_once_and_those_that_are_left_end_with_the_pool() -> None:
    made: list[Cell] = []

    async def make() -> Cell:
        made.append(Cell())
        return made[-1]

    pool = WarmPool(3, make)
    await pool.wait_full()
    await made[0].close()
    assert await pool.acquire() is made[1]
    await pool.close()
    assert [cell.closed for cell in made] == [True, False, True]
    assert await pool.acquire() is None


async def test_who_waits_for_a_pool_that_is_closed_is_told() -> None:
    never = asyncio.Event()

    async def make() -> Cell:
        await never.wait()
        return Cell()

    pool = WarmPool(1, make)
    waiting = asyncio.create_task(pool.wait_full())
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(SandboxUnavailableError, match="the sandbox was closed"):
        await waiting


async def test_who_waits_for_a_pool_that_nothing_can_fill_is_told_why() -> None:
    async def make() -> Cell:
        raise ZeroDivisionError

    pool = WarmPool(1, make)
    with pytest.raises(ZeroDivisionError):
        await pool.wait_full()
    await pool.close()
