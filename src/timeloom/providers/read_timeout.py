"""Limits the time of many short reads with a single timer."""

import asyncio
import math


class ReadTimeout:
    """Fails a read that takes too long with `TimeoutError`.

    A stream has thousands of reads of a few microseconds. One timer for each would cost more than the read itself. Here
    one timer serves all reads: when it fires and its read is done, it is set again for the current read.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._read: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._timer_at = math.inf

    def limit(self, read: asyncio.Future[None], limit_s: float) -> None:
        """Limit this read, and stop limiting the previous one."""
        self._read = read
        self._deadline = self._loop.time() + limit_s
        if self._deadline < self._timer_at:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._deadline
        self._timer = self._loop.call_at(self._timer_at, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer_at = math.inf
        if self._read is None or self._read.done():
            return
        if self._loop.time() < self._deadline:
            self._set_timer()
        else:
            self._read.set_exception(TimeoutError())
