"""Cancels a sandbox's pending work when the sandbox is closed."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from timeloom.platform.tasks import run_to_completion, wait_until_done
from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.warm_pool import WarmWorker

T = TypeVar("T")


class CancelOnClose:
    """Runs work and cancels it when `close` is called."""

    def __init__(self) -> None:
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()

    def check_open(self) -> None:
        """Raise `SandboxUnavailableError` if this is closed."""
        if self._closed:
            raise SandboxUnavailableError("the sandbox was closed")

    async def run(self, work: "Coroutine[Any, Any, T]") -> T:
        """Run the work and return its result; raise `SandboxUnavailableError` if `close` cancelled it.

        In every case the work has ended before this method returns or raises.
        """
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        try:
            if self._closed:
                task.cancel()
            await asyncio.wait((task,))
        finally:
            if not task.done():
                task.cancel()
                # Not raised: the cancellation that ended the wait above is on its way to the caller.
                await wait_until_done(task)
            self._tasks.discard(task)
            if not task.cancelled():
                # Mark the exception as retrieved: a cancelled caller never reads it.
                task.exception()
        if task.cancelled() and self._closed:
            raise SandboxUnavailableError("the sandbox was closed before the program had ended")
        return task.result()

    async def close(self) -> None:
        """Cancel all work and return when all of it has ended."""
        self._closed = True
        while tasks := {work for work in self._tasks if not work.done()}:
            for work in tasks:
                work.cancel()
            await run_to_completion(asyncio.wait(tasks))


@dataclass(slots=True)
class ActiveRun:
    """A run in progress, with its worker once it has one."""

    worker: WarmWorker | None = None

    async def close(self) -> None:
        """Kill the program and remove its files."""
        if self.worker is not None:
            await self.worker.close()
