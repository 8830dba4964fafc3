"""Wakes readers that wait for new entries of a conversation, from any thread."""

import asyncio
import contextlib
import threading
from collections.abc import Iterable


class Follower:
    """One waiting reader, bound to the event loop in which it was created."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """End the wait, from any thread. Does nothing if the event loop is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._changed.set)

    def clear(self) -> None:
        """Forget earlier wake-ups. Call it before reading, so that no change between reading and waiting is missed."""
        self._changed.clear()

    async def wait(self) -> None:
        """Wait until there may be new entries."""
        await self._changed.wait()

    async def wait_at_most(self, seconds: float) -> None:
        """Wait until there may be new entries, at most that long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()


class Followers:
    """All followers of a store, by the number of their conversation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_number: dict[int, list[Follower]] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the store is closed, so that no entries will follow."""
        return self._closed

    def add(self, number: int) -> Follower:
        """Add and return a follower of that conversation. Call `remove` when it ends."""
        follower = Follower()
        with self._lock:
            self._by_number.setdefault(number, []).append(follower)
        return follower

    def remove(self, number: int, follower: Follower) -> None:
        """Remove a follower that `add` returned."""
        with self._lock:
            remaining = [other for other in self._by_number[number] if other is not follower]
            if remaining:
                self._by_number[number] = remaining
            else:
                del self._by_number[number]

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of the conversations that have followers."""
        with self._lock:
            return tuple(self._by_number)

    def wake(self, numbers: Iterable[int]) -> None:
        """Wake the followers of these conversations."""
        # Without the lock: a follower that is added meanwhile reads after the change that this call announces.
        if not self._by_number:
            return
        with self._lock:
            followers = [follower for number in numbers for follower in self._by_number.get(number, ())]
        for follower in followers:
            follower.wake()

    def close(self) -> None:
        """Mark the store as closed and wake all followers."""
        self._closed = True
        self.wake(self.numbers())
