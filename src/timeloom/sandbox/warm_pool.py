"""The pool: cells that wait for a program, isolated and with their libraries loaded, made in the background."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final, Generic, Protocol, TypeVar

from timeloom.core.codes import CodedError
from timeloom.ports.sandbox import SandboxUnavailableError

REFILL_S: Final = 0.25
"""From taking a cell to making the next. Shorter takes the processor from the program that has just begun."""

RETRY_S: Final = 5.0
"""After a cell that could not be made."""

_logger = logging.getLogger(__name__)


class Waiting(Protocol):
    """What can wait for a program."""

    def is_waiting(self) -> bool:
        """Whether its interpreter is still there."""
        ...

    async def close(self) -> None:
        """Ends what runs in it, and removes all that it had."""
        ...


C = TypeVar("C", bound=Waiting)


class Pool(Generic[C]):
    """Keeps so many cells; each is handed out once."""

    def __init__(self, size: int, make: Callable[[], Coroutine[None, None, C]]) -> None:
        self._size = size
        self._make = make
        self._waiting: deque[C] = deque()
        self._filling: asyncio.Task[None] | None = None
        self._closed = False

    async def take(self) -> C | None:
        """A cell that waits; None where none is there. The next is made in a moment."""
        self.fill(after_s=REFILL_S)
        while self._waiting:
            cell = self._waiting.popleft()
            if cell.is_waiting():
                return cell
            await cell.close()
        return None

    def fill(self, after_s: float = 0.0) -> None:
        """Begins to make what is missing."""
        if self._size and not self._closed and (self._filling is None or self._filling.done()):
            self._filling = asyncio.create_task(self._fill(after_s))

    async def full(self) -> None:
        """Waits until all cells wait; raises `SandboxUnavailableError` where the pool is closed before that."""
        while len(self._waiting) < self._size:
            self.fill()
            if self._closed or self._filling is None:
                raise SandboxUnavailableError("the sandbox was closed")
            filling = self._filling
            await asyncio.wait((filling,))
            if not filling.cancelled():
                filling.result()

    async def close(self) -> None:
        """Ends all cells that wait."""
        self._closed = True
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
            except (CodedError, OSError) as error:
                _logger.warning("no interpreter could be made to wait for a program: %s", error)
                await asyncio.sleep(RETRY_S)
