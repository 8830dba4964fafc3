"""Runs, cancels and waits for asyncio work; each function documents the effect of cancelling its caller."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from timeloom.core.codes import CodedError

T = TypeVar("T")


async def run_to_completion(work: Awaitable[T]) -> T:
    """Return the result of the work or raise its error; raise a cancellation of the caller after the work succeeded."""
    task = asyncio.ensure_future(work)
    cancelled = await wait_until_done(task)
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


async def run_despite_cancellation(work: Awaitable[T]) -> tuple[T, bool]:
    """Return the result of the work and whether the caller was cancelled meanwhile; raise the error of the work."""
    task = asyncio.ensure_future(work)
    cancelled = await wait_until_done(task)
    return task.result(), cancelled is not None


async def wait_until_done(*tasks: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait until all tasks are done, with any outcome; return the last cancellation of the caller, if there was one."""
    cancelled: asyncio.CancelledError | None = None
    while left := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks and wait until all are done. A cancellation of the caller ends the wait at once."""
    if left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left)


async def cancel_to_completion(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks and wait until all are done; discard their results and errors.

    A cancellation of the caller cancels the tasks again, and is raised after all of them are done.
    """
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def acquire_or_release(acquire: Coroutine[object, object, T], release: Callable[[T], Awaitable[None]]) -> T:
    """Return the result of `acquire`. If the caller is cancelled meanwhile, wait for it and pass it to `release`.

    A second cancellation of the caller cancels the acquisition or the release.
    """
    task = asyncio.ensure_future(acquire)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Nothing was acquired if it was refused, or if the loop is closing and cancelled this task too.
        with contextlib.suppress(CodedError, asyncio.CancelledError):
            await release(await task)
        raise


async def finishes_before(
    work: Coroutine[Any, Any, object],
    end: "asyncio.Future[Any] | Coroutine[Any, Any, object]",
    timeout_s: float | None = None,
) -> bool:
    """Run the work until it is done, `end` is done or the time is over; return whether the work is done.

    Raises the error of the work. Unfinished work is cancelled, and so is `end` if it is a coroutine.
    """
    task, end_task = asyncio.ensure_future(work), asyncio.ensure_future(end)
    try:
        await asyncio.wait((task, end_task), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return task.done()
    finally:
        task.cancel()
        if end_task is not end:
            end_task.cancel()


async def run_until_interrupted(interrupt: asyncio.Event, work: Coroutine[object, object, T]) -> T | None:
    """Return the result of the work; None if the interrupt came first, which cancels the work.

    A cancellation of the caller is passed on to the work.
    """
    if interrupt.is_set():
        work.close()
        return None
    task = asyncio.current_task()
    assert task is not None
    other_cancellations, interrupted = task.cancelling(), False

    def cancel_task(waiting: "asyncio.Task[object]") -> None:
        nonlocal interrupted
        if not waiting.cancelled():
            interrupted = task.cancel()

    # The work runs in the current task: it starts at once instead of after all tasks that are already scheduled.
    waiting = asyncio.create_task(interrupt.wait())
    waiting.add_done_callback(cancel_task)
    try:
        done = await work
    except (asyncio.CancelledError, Exception):
        if not interrupted or task.uncancel() > other_cancellations:
            raise
        return None
    finally:
        waiting.remove_done_callback(cancel_task)
        waiting.cancel()
    if interrupted:
        task.uncancel()
        return None
    return done
