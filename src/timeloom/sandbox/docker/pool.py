"""The pool: containers that wait for a program, with their libraries loaded, made in the background."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final

from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.docker.cell import ContainerCell

REFILL_S: Final = 0.25
"""From taking a container to making the next. Shorter takes the processor from the program that has just begun."""

RETRY_S: Final = 5.0
"""After one that could not be made."""

_logger = logging.getLogger(__name__)


class Pool:
    """Keeps so many containers; each is handed out once."""

    def __init__(self, size: int, make: Callable[[], Coroutine[None, None, ContainerCell]]) -> None:
        self._size = size
        self._make = make
        self._waiting: deque[ContainerCell] = deque()
        self._filling: asyncio.Task[None] | None = None

    async def take(self) -> ContainerCell | None:
        """One that waits, if one is there; the next is made in a moment."""
        found: ContainerCell | None = None
        while found is None and self._waiting:
            found = self._waiting.popleft()
            if found.is_over():
                # It did not last: the engine was started again, or somebody removed it.
                await found.close()
                found = None
        self.fill(after_s=REFILL_S)
        return found

    def fill(self, after_s: float = 0.0) -> None:
        """Begins to make what is missing."""
        if self._size and (self._filling is None or self._filling.done()):
            self._filling = asyncio.create_task(self._fill(after_s))

    async def full(self) -> None:
        """Waits until all wait."""
        while len(self._waiting) < self._size:
            self.fill()
            assert self._filling is not None
            await asyncio.shield(self._filling)

    async def close(self) -> None:
        """Ends all that wait."""
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.gather(self._filling, return_exceptions=True)
        while self._waiting:
            await self._waiting.popleft().close()

    async def _fill(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        while len(self._waiting) < self._size:
            try:
                self._waiting.append(await self._make())
            except SandboxUnavailableError:
                _logger.warning("no container could be made to wait for a program", exc_info=True)
                await asyncio.sleep(RETRY_S)
