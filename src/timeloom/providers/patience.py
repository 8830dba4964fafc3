"""Patience: how long each of many short waits may take, with one timer for all of them."""

import asyncio
from types import TracebackType
from typing import Self


class Patience:
    """Raises `TimeoutError` out of a wait that takes too long, as `asyncio.timeout` does.

    A stream has thousands of waits of a few microseconds, and a timer of its own for each would cost more than reading
    what came. Here a timer that finds the wait over waits for the end of the one that is running by then.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._limit_s = 0.0
        self._ends_at = 0.0
        self._cancelling = 0
        self._expired = False

    def limited(self, limit_s: float) -> Self:
        """The context of one wait."""
        self._limit_s = limit_s
        return self

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling, self._expired = task, task.cancelling(), False
        self._ends_at = self._loop.time() + self._limit_s
        if self._timer is None or self._timer.when() > self._ends_at:
            self._set_timer()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        task, self._task = self._task, None
        if not self._expired or task is None:
            return
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._ends_at, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if self._loop.time() < self._ends_at:
            self._set_timer()
            return
        self._expired = True
        self._task.cancel()
