"""Each helper for asyncio work keeps its promise about results, errors and cancellations of its caller."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from timeloom.core.codes import CodedError
from timeloom.platform.tasks import (
    acquire_or_release,
    cancel_and_wait,
    cancel_to_completion,
    finishes_before,
    run_despite_cancellation,
    run_to_completion,
    run_until_interrupted,
    wait_until_done,
)


def run(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(10):
            await check()

    asyncio.run(limited())


async def let_others_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def cancel_times(task: "asyncio.Task[Any]", times: int) -> None:
    """Cancel the task that often, each time after it has reached its next wait."""
    for _ in range(times):
        await let_others_run()
        task.cancel()
    await let_others_run()


class Work:
    """Work that ends when told so; it ignores the first cancellations, as work with a slow cleanup does."""

    def __init__(self, *, ignores: int = 0) -> None:
        self.ends: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.cancellations = 0
        self._ignores = ignores

    async def run(self) -> str:
        while True:
            try:
                return await asyncio.shield(self.ends)
            except asyncio.CancelledError:
                self.cancellations += 1
                if self.cancellations > self._ignores:
                    raise


TO_COMPLETION = pytest.mark.parametrize("to_completion", [run_to_completion, run_despite_cancellation])
Run = Callable[[Awaitable[str]], Coroutine[Any, Any, object]]


@pytest.mark.parametrize("cancellations", [1, 2, 3])
def test_work_is_done_before_a_cancellation_is_raised(cancellations: int) -> None:
    async def check() -> None:
        work = Work()
        task = asyncio.create_task(run_to_completion(work.run()))
        await cancel_times(task, cancellations)
        assert not task.done()
        work.ends.set_result("done")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.cancellations == 0

    run(check)


@pytest.mark.parametrize("cancellations", [0, 1, 2])
def test_the_result_of_work_comes_with_whether_the_caller_was_cancelled(cancellations: int) -> None:
    async def check() -> None:
        work = Work()
        task = asyncio.create_task(run_despite_cancellation(work.run()))
        await cancel_times(task, cancellations)
        work.ends.set_result("done")
        assert await task == ("done", cancellations > 0)
        assert work.cancellations == 0

    run(check)


def test_uncancelled_work_returns_its_result_even_if_it_is_done_already() -> None:
    async def check() -> None:
        done = asyncio.get_running_loop().create_future()
        done.set_result(3)
        assert await run_to_completion(done) == 3
        assert await run_to_completion(asyncio.sleep(0, 4)) == 4
        assert await run_despite_cancellation(done) == (3, False)

    run(check)


@TO_COMPLETION
@pytest.mark.parametrize("cancellations", [0, 1, 2])
def test_an_error_of_the_work_is_raised_even_if_the_caller_was_cancelled(
    to_completion: Run, cancellations: int
) -> None:
    async def check() -> None:
        work = Work()
        task = asyncio.create_task(to_completion(work.run()))
        await cancel_times(task, cancellations)
        work.ends.set_exception(ValueError("failed"))
        with pytest.raises(ValueError, match="failed"):
            await task

    run(check)


@TO_COMPLETION
def test_work_that_is_cancelled_itself_cancels_its_caller(to_completion: Run) -> None:
    async def check() -> None:
        inner = asyncio.create_task(Work().run())
        task = asyncio.create_task(to_completion(inner))
        await let_others_run()
        inner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(check)


def test_all_tasks_are_awaited_despite_cancellations_which_are_reported() -> None:
    async def check() -> None:
        works = [Work(), Work()]
        tasks = [asyncio.create_task(work.run()) for work in works]
        waiting = asyncio.create_task(wait_until_done(*tasks))
        await cancel_times(waiting, 1)
        works[0].ends.set_exception(ValueError("failed"))
        await cancel_times(waiting, 1)
        assert not waiting.done()
        works[1].ends.set_result("done")
        assert isinstance(await waiting, asyncio.CancelledError)
        assert await wait_until_done(*tasks) is None
        with pytest.raises(ValueError, match="failed"):
            await tasks[0]

    run(check)


def test_cancelled_tasks_are_awaited_and_keep_their_errors() -> None:
    async def check() -> None:
        slow, failed = Work(ignores=1), asyncio.create_task(fail())
        await asyncio.wait({failed})
        tasks = [asyncio.create_task(slow.run()), asyncio.create_task(Work().run()), failed]
        await let_others_run()
        waiting = asyncio.create_task(cancel_and_wait(*tasks))
        await let_others_run()
        assert [task.done() for task in (*tasks, waiting)] == [False, True, True, False]
        slow.ends.set_result("cleaned up")
        await waiting
        assert (await tasks[0], tasks[1].cancelled()) == ("cleaned up", True)
        with pytest.raises(ValueError, match="failed"):
            await failed

    run(check)


def test_a_cancellation_of_the_caller_ends_the_wait_for_cancelled_tasks() -> None:
    async def check() -> None:
        work = Work(ignores=1)
        task = asyncio.create_task(work.run())
        await let_others_run()
        waiting = asyncio.create_task(cancel_and_wait(task))
        await cancel_times(waiting, 1)
        assert (waiting.cancelled(), task.done(), work.cancellations) == (True, False, 1)
        task.cancel()

    run(check)


def test_no_tasks_need_no_wait() -> None:
    async def check() -> None:
        await cancel_and_wait()
        await cancel_to_completion()
        assert await wait_until_done() is None

    run(check)


def test_tasks_are_cancelled_to_completion_and_their_errors_are_discarded() -> None:
    async def check() -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        slow, failed = Work(ignores=1), asyncio.create_task(fail())
        await asyncio.wait({failed})
        task = asyncio.create_task(slow.run())
        await let_others_run()
        waiting = asyncio.create_task(cancel_to_completion(task, failed))
        await let_others_run()
        assert not waiting.done()
        slow.ends.set_exception(ValueError("the cleanup failed"))
        await waiting
        assert task.done()
        del slow, task, failed, waiting
        await let_others_run()
        assert reported == []

    run(check)


def test_a_cancellation_of_the_caller_cancels_again_and_is_raised_after_all_tasks_are_done() -> None:
    async def check() -> None:
        stubborn, slower = Work(ignores=1), Work(ignores=2)
        tasks = [asyncio.create_task(stubborn.run()), asyncio.create_task(slower.run())]
        await let_others_run()
        waiting = asyncio.create_task(cancel_to_completion(*tasks))
        await cancel_times(waiting, 1)
        assert [task.done() for task in (*tasks, waiting)] == [True, False, False]
        await cancel_times(waiting, 1)
        assert all(task.cancelled() for task in (*tasks, waiting))
        assert (stubborn.cancellations, slower.cancellations) == (2, 3)

    run(check)


class Resource:
    """Records what was released; the release itself may be slow."""

    def __init__(self) -> None:
        self.released: list[str] = []

    async def release(self, name: str) -> None:
        await asyncio.sleep(0)
        self.released.append(name)


def test_an_acquired_resource_is_returned_and_not_released() -> None:
    async def check() -> None:
        resource = Resource()
        assert await acquire_or_release(asyncio.sleep(0, "lease"), resource.release) == "lease"
        assert resource.released == []

    run(check)


def test_a_resource_that_a_cancelled_caller_acquires_is_released() -> None:
    async def check() -> None:
        work, resource = Work(), Resource()
        task = asyncio.create_task(acquire_or_release(work.run(), resource.release))
        await cancel_times(task, 1)
        assert not task.done()
        work.ends.set_result("lease")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (resource.released, work.cancellations) == (["lease"], 0)

    run(check)


def test_an_acquisition_that_is_refused_raises_its_error_unless_the_caller_was_cancelled() -> None:
    async def check(cancellations: int, raised: type[BaseException]) -> None:
        work, resource = Work(), Resource()
        task = asyncio.create_task(acquire_or_release(work.run(), resource.release))
        await cancel_times(task, cancellations)
        work.ends.set_exception(CodedError("conversation_held", "another process holds it"))
        with pytest.raises(raised):
            await task
        assert resource.released == []

    run(lambda: check(0, CodedError))
    run(lambda: check(1, asyncio.CancelledError))


def test_a_second_cancellation_cancels_the_acquisition() -> None:
    async def check() -> None:
        work, resource = Work(), Resource()
        task = asyncio.create_task(acquire_or_release(work.run(), resource.release))
        await cancel_times(task, 2)
        assert (task.cancelled(), work.cancellations, resource.released) == (True, 1, [])

    run(check)


def test_work_that_finishes_before_the_end_leaves_the_end_running() -> None:
    async def check() -> None:
        end = asyncio.create_task(Work().run())
        assert await finishes_before(asyncio.sleep(0), end)
        await let_others_run()
        assert not end.done()
        assert await finishes_before(asyncio.sleep(0), asyncio.Event().wait())

    run(check)


def test_work_is_cancelled_when_the_end_comes_first_or_the_time_is_over() -> None:
    async def check() -> None:
        late, ended, timed_out = Work(), Work(), Work()
        assert not await finishes_before(late.run(), asyncio.sleep(0))
        end = asyncio.create_task(ended.run())
        assert not await finishes_before(timed_out.run(), end, timeout_s=0.001)
        await let_others_run()
        assert (late.cancellations, timed_out.cancellations, end.done()) == (1, 1, False)

    run(check)


def test_an_error_of_work_that_finishes_first_is_raised() -> None:
    async def check() -> None:
        with pytest.raises(ValueError, match="failed"):
            await finishes_before(fail(), asyncio.Event().wait())

    run(check)


def test_a_cancelled_caller_cancels_the_work_and_an_end_that_is_a_coroutine() -> None:
    async def check() -> None:
        works, kept = [Work(), Work(), Work()], Work()
        end = asyncio.create_task(kept.run())
        for waiting in (finishes_before(works[0].run(), end), finishes_before(works[1].run(), works[2].run())):
            task = asyncio.create_task(waiting)
            await cancel_times(task, 1)
            assert task.cancelled()
        assert [work.cancellations for work in (*works, kept)] == [1, 1, 1, 0]

    run(check)


async def fail() -> None:
    raise ValueError("failed")


def test_work_is_not_begun_once_it_is_interrupted() -> None:
    async def check() -> None:
        begun: list[int] = []

        async def work() -> int:
            begun.append(1)
            return 1

        interrupt = asyncio.Event()
        assert await run_until_interrupted(interrupt, work()) == 1
        interrupt.set()
        assert await run_until_interrupted(interrupt, work()) is None
        assert begun == [1]

    run(check)


def test_work_that_ends_badly_once_it_is_interrupted_is_given_up_all_the_same() -> None:
    async def check() -> None:
        begun, interrupt = asyncio.Event(), asyncio.Event()

        async def work() -> int:
            try:
                begun.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise ValueError("closing failed") from None
            return 1

        waiting = asyncio.create_task(run_until_interrupted(interrupt, work()))
        await begun.wait()
        interrupt.set()
        assert await waiting is None

    run(check)


def test_work_that_ends_well_though_it_is_interrupted_is_given_up_and_cancels_nothing_else() -> None:
    async def check() -> None:
        begun, interrupt = asyncio.Event(), asyncio.Event()

        async def work() -> int:
            with suppress(asyncio.CancelledError):
                begun.set()
                await asyncio.Event().wait()
            return 1

        async def ask() -> int:
            given_up = await run_until_interrupted(interrupt, work())
            task = asyncio.current_task()
            assert given_up is None and task
            await asyncio.sleep(0)
            return task.cancelling()

        waiting = asyncio.create_task(ask())
        await begun.wait()
        interrupt.set()
        assert await waiting == 0

    run(check)


def test_whoever_is_cancelled_while_interrupted_work_ends_is_cancelled() -> None:
    async def check() -> None:
        begun, interrupt, ends = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def work() -> int:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                await ends.wait()
            return 1

        waiting = asyncio.create_task(run_until_interrupted(interrupt, work()))
        await begun.wait()
        interrupt.set()
        for _ in range(5):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        ends.set()

    run(check)
