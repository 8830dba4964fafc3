"""Closing: work of a sandbox that is given up when the sandbox is closed, and what whoever waits for it is told."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from timeloom.platform.tasks import uncancelled
from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.warm_pool import Waiting

T = TypeVar("T")


class UntilClosed:
    """Does work for as long as nobody has closed it."""

    def __init__(self) -> None:
        self._closed = False
        self._works: set[asyncio.Task[Any]] = set()

    def check(self) -> None:
        """Raises `SandboxUnavailableError` where it is closed."""
        if self._closed:
            raise SandboxUnavailableError("the sandbox was closed")

    async def do(self, work: "Coroutine[Any, Any, T]") -> T:
        """What the work gives; raises `SandboxUnavailableError` where it was given up because this was closed.

        However it ends, the work has ended before whoever waits goes on.
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
                # Whoever was cancelled meanwhile does not ask how the work ended.
                task.exception()
        if task.cancelled() and self._closed:
            raise SandboxUnavailableError("the sandbox was closed before the program had ended")
        return task.result()

    async def close(self) -> None:
        """Gives up all work; when it returns, all of it has ended."""
        self._closed = True
        while works := {work for work in self._works if not work.done()}:
            for work in works:
                work.cancel()
            await uncancelled(asyncio.wait(works))


@dataclass(slots=True)
class Running:
    """A run, and its cell as soon as it has one."""

    cell: Waiting | None = None

    async def close(self) -> None:
        """Ends what runs, and removes what is left of it."""
        if self.cell is not None:
            await self.cell.close()
