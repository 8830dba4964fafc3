"""Cancels a sandbox's pending work when the sandbox is closed."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from timeloom.platform.tasks import uncancelled
from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.warm_pool import Waiting

T = TypeVar("T")


class UntilClosed:
    """Runs work and cancels it when `close` is called."""

    def __init__(self) -> None:
        self._closed = False
        self._works: set[asyncio.Task[Any]] = set()

    def check(self) -> None:
        """Raise `SandboxUnavailableError` if this is closed."""
        if self._closed:
            raise SandboxUnavailableError("the sandbox was closed")

    async def do(self, work: "Coroutine[Any, Any, T]") -> T:
        """Run the work and return its result; raise `SandboxUnavailableError` if `close` cancelled it.

        In every case the work has ended before this method returns or raises.
        """
        task = asyncio.ensure_future(work)
        self._works.add(task)
        try:
            if self._closed:
                task.cancel()
            await asyncio.wait((task,))
        finally:
            if not task.done():
                task.cancel()
                await uncancelled(asyncio.wait((task,)))
            self._works.discard(task)
            if not task.cancelled():
                # Mark the exception as retrieved: a cancelled caller never reads it.
                task.exception()
        if task.cancelled() and self._closed:
            raise SandboxUnavailableError("the sandbox was closed before the program had ended")
        return task.result()

    async def close(self) -> None:
        """Cancel all work and return when all of it has ended."""
        self._closed = True
        while works := {work for work in self._works if not work.done()}:
            for work in works:
                work.cancel()
            await uncancelled(asyncio.wait(works))


@dataclass(slots=True)
class Running:
    """A run in progress, with its worker once it has one."""

    cell: Waiting | None = None

    async def close(self) -> None:
        """Kill the program and remove its files."""
        if self.cell is not None:
            await self.cell.close()
