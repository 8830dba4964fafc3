"""Keeps isolated interpreters with preloaded libraries ready, and starts replacements in the background."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final, Generic, Protocol, TypeVar

from timeloom.core.codes import CodedError
from timeloom.ports.sandbox import SandboxUnavailableError

REFILL_S: Final = 0.25
"""Seconds between taking a worker and starting its replacement. A shorter pause takes processor time from the program
that has just started."""

RETRY_S: Final = 5.0
"""Pause after a worker could not be started."""

_logger = logging.getLogger(__name__)


class Waiting(Protocol):
    """A worker that can wait for a program."""

    def is_waiting(self) -> bool:
        """Return whether its interpreter is still alive."""
        ...

    async def close(self) -> None:
        """Kill its processes and remove its resources."""
        ...


C = TypeVar("C", bound=Waiting)


class Pool(Generic[C]):
    """Keeps a fixed number of workers ready; each is handed out once."""

    def __init__(self, size: int, make: Callable[[], Coroutine[None, None, C]]) -> None:
        self._size = size
        self._make = make
        self._waiting: deque[C] = deque()
        self._filling: asyncio.Task[None] | None = None
        self._closed = False

    async def take(self) -> C | None:
        """Return a ready worker, or None if there is none, and schedule its replacement."""
        self.fill(after_s=REFILL_S)
        while self._waiting:
            cell = self._waiting.popleft()
            if cell.is_waiting():
                return cell
            await cell.close()
        return None

    def fill(self, after_s: float = 0.0) -> None:
        """Start the missing workers in the background."""
        if self._size and not self._closed and (self._filling is None or self._filling.done()):
            self._filling = asyncio.create_task(self._fill(after_s))

    async def full(self) -> None:
        """Wait until all workers are ready; raise `SandboxUnavailableError` if the pool is closed first."""
        while len(self._waiting) < self._size:
            self.fill()
            if self._closed or self._filling is None:
                raise SandboxUnavailableError("the sandbox was closed")
            filling = self._filling
            await asyncio.wait((filling,))
            if not filling.cancelled():
                filling.result()

    async def close(self) -> None:
        """Close all ready workers."""
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
                _logger.warning("could not start a worker for the warm pool: %s", error)
                await asyncio.sleep(RETRY_S)
