"""Keeps isolated interpreters with preloaded libraries ready, and starts replacements in the background."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final, Generic, Protocol, TypeVar

from timeloom.core.codes import CodedError
from timeloom.platform.tasks import cancel_to_completion
from timeloom.ports.sandbox import SandboxUnavailableError

REFILL_S: Final = 0.25
"""Seconds between taking a worker and starting its replacement. A shorter pause takes processor time from the program
that has just started."""

RETRY_S: Final = 5.0
"""Pause after a worker could not be started."""

_logger = logging.getLogger(__name__)


class WarmWorker(Protocol):
    """A worker that can wait for a program."""

    def is_waiting(self) -> bool:
        """Return whether its interpreter is still alive."""
        ...

    async def close(self) -> None:
        """Kill its processes and remove its resources."""
        ...


C = TypeVar("C", bound=WarmWorker)


class WarmPool(Generic[C]):
    """Keeps a fixed number of workers ready; each is handed out once."""

    def __init__(self, size: int, make: Callable[[], Coroutine[None, None, C]]) -> None:
        self._size = size
        self._make = make
        self._ready: deque[C] = deque()
        self._refill_task: asyncio.Task[None] | None = None
        self._closed = False

    async def acquire(self) -> C | None:
        """Return a ready worker, or None if there is none, and schedule its replacement."""
        self.start_refill(after_s=REFILL_S)
        while self._ready:
            worker = self._ready.popleft()
            if worker.is_waiting():
                return worker
            await worker.close()
        return None

    def start_refill(self, after_s: float = 0.0) -> None:
        """Start the missing workers in the background."""
        if self._size and not self._closed and (self._refill_task is None or self._refill_task.done()):
            self._refill_task = asyncio.create_task(self._refill(after_s))

    async def wait_full(self) -> None:
        """Wait until all workers are ready; raise `SandboxUnavailableError` if the pool is closed first."""
        while len(self._ready) < self._size:
            self.start_refill()
            if self._closed or self._refill_task is None:
                raise SandboxUnavailableError("the sandbox was closed")
            filling = self._refill_task
            await asyncio.wait((filling,))
            if not filling.cancelled():
                filling.result()

    async def close(self) -> None:
        """Close all ready workers."""
        self._closed = True
        if self._refill_task is not None:
            await cancel_to_completion(self._refill_task)
        while self._ready:
            await self._ready.popleft().close()

    async def _refill(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        while len(self._ready) < self._size:
            try:
                self._ready.append(await self._make())
            except (CodedError, OSError) as error:
                _logger.warning("could not start a worker for the warm pool: %s", error)
                await asyncio.sleep(RETRY_S)
