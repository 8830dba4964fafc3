"""A worker that hangs, crashes or takes too much memory costs one request."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.harness import worker_module
from timeloom.platform.worker_pool import WorkerError, WorkerLimits, WorkerPool

PROGRAM = Path(worker_module.__file__)
LIMITS = WorkerLimits(request_s=20, memory_bytes=512 * 1024 * 1024, answer_bytes=10_000)
"""Enough for a start of Python on a busy machine."""


def in_pool(use: Callable[[WorkerPool], Awaitable[None]], limits: WorkerLimits = LIMITS, *, size: int = 2) -> None:
    async def run() -> None:
        async with WorkerPool(PROGRAM, limits, size=size) as pool:
            await use(pool)

    asyncio.run(run())


def test_requests_are_answered_by_the_same_process() -> None:
    async def use(pool: WorkerPool) -> None:
        first, again = await pool.run(b"pid"), await pool.run(b"pid")
        assert first == again
        assert await pool.run(b"echo x") == b"x"

    in_pool(use)


def test_requests_run_at_once_in_as_many_processes_as_the_pool_has() -> None:
    async def use(pool: WorkerPool) -> None:
        pids = await asyncio.gather(*(pool.run(b"pid") for _ in range(8)))
        assert 1 <= len(set(pids)) <= 2

    in_pool(use)


@pytest.mark.parametrize(
    ("request_text", "failure"),
    [(b"exit", "crashed"), (b"raise", "crashed"), (b"memory", "crashed"), (b"large", "answer_too_large")],
)
def test_a_failed_request_ends_its_worker_and_no_other_request(request_text: bytes, failure: str) -> None:
    async def use(pool: WorkerPool) -> None:
        before = await pool.run(b"pid")
        with pytest.raises(WorkerError) as raised:
            await pool.run(request_text)
        assert raised.value.failure == failure
        assert await pool.run(b"pid") != before

    in_pool(use, size=1)


def test_a_request_that_hangs_is_ended_at_its_deadline() -> None:
    async def use(pool: WorkerPool) -> None:
        with pytest.raises(WorkerError, match="timeout"):
            await pool.run(b"hang")

    in_pool(use, WorkerLimits(request_s=0.2, memory_bytes=0))


def test_a_worker_is_replaced_after_its_requests() -> None:
    async def use(pool: WorkerPool) -> None:
        pids = [await pool.run(b"pid") for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]

    in_pool(use, WorkerLimits(request_s=20, memory_bytes=0, requests=2))


def test_prints_of_a_library_do_not_become_answers() -> None:
    async def use(pool: WorkerPool) -> None:
        assert await pool.run(b"print") == b"printed"

    in_pool(use)


def test_a_worker_sees_no_variable_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "planted")

    async def use(pool: WorkerPool) -> None:
        assert b"planted" not in await pool.run(b"environment")

    in_pool(use)


def test_a_cancelled_request_leaves_no_process() -> None:
    async def use(pool: WorkerPool) -> None:
        task = asyncio.create_task(pool.run(b"hang"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await pool.run(b"echo x") == b"x"

    in_pool(use, size=1)


def test_a_program_that_cannot_start_fails_each_request() -> None:
    async def run() -> None:
        async with WorkerPool("no.such.module", LIMITS) as pool:
            outcomes = await asyncio.gather(*(pool.run(b"x") for _ in range(5)), return_exceptions=True)
            assert [str(outcome) for outcome in outcomes] == ["crashed"] * 5
            with pytest.raises(WorkerError):
                await asyncio.gather(*(pool.run(b"x") for _ in range(5)))

    asyncio.run(run())
