"""Followers: who waits for news of a conversation, woken from any thread."""

import asyncio
import contextlib
import threading
from collections.abc import Iterable


class Follower:
    """One that waits, in the event loop where it was made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Ends the wait, from any thread; a loop that is gone has nobody waiting."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._news.set)

    def forget(self) -> None:
        """From here on only what is new ends a wait: call it before looking, so that nothing falls in between."""
        self._news.clear()

    async def wait(self) -> None:
        """Returns when there may be news."""
        await self._news.wait()

    async def wait_at_most(self, seconds: float) -> None:
        """The same, or after so long without news."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()


class Followers:
    """All followers of a store by the number of their conversation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_number: dict[int, list[Follower]] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether there will be no more news."""
        return self._closed

    def add(self, number: int) -> Follower:
        """A follower of that conversation, to be removed when it ends."""
        follower = Follower()
        with self._lock:
            self._by_number.setdefault(number, []).append(follower)
        return follower

    def remove(self, number: int, follower: Follower) -> None:
        """Ends what `add` began."""
        with self._lock:
            left = [other for other in self._by_number[number] if other is not follower]
            if left:
                self._by_number[number] = left
            else:
                del self._by_number[number]

    def numbers(self) -> tuple[int, ...]:
        """The conversations that are followed."""
        with self._lock:
            return tuple(self._by_number)

    def wake(self, numbers: Iterable[int]) -> None:
        """Tells the followers of these conversations to look."""
        with self._lock:
            found = [follower for number in numbers for follower in self._by_number.get(number, ())]
        for follower in found:
            follower.wake()

    def close(self) -> None:
        """Wakes everybody for the last time."""
        self._closed = True
        self.wake(self.numbers())
