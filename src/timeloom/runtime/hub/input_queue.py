"""The queue of a live conversation's inputs: one worker task handles them one at a time."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from timeloom.core.timeline import Entry
from timeloom.runtime.hub.state import Input, SendReceipt

_logger = logging.getLogger(__name__)

Reply = SendReceipt | tuple[Entry, ...] | None
"""The reply to a request: a receipt, the appended entries, or nothing."""


class InputItem(NamedTuple):
    """An input with the reply that its sender waits for; `finished` ends the pause that a release asks for."""

    given: Input
    reply: "asyncio.Future[Reply] | None" = None
    finished: asyncio.Event | None = None

    async def pause(self) -> None:
        """Reply to the sender, then wait until it has finished."""
        if self.reply and self.finished and not self.reply.done():
            self.reply.set_result(None)
            await self.finished.wait()


class InputQueue:
    """Passes inputs to `process` in their order; its worker task exists only while there are inputs."""

    def __init__(self, name: str, process: Callable[[InputItem], Awaitable[Reply]], on_drained: Callable[[], None]):
        self._name = name
        self._process = process
        self._on_drained = on_drained
        self._items: deque[InputItem] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether inputs wait or are being handled."""
        return self._worker is not None

    async def submit(self, given: Input, finished: asyncio.Event | None = None, *, first: bool = False) -> Reply:
        """Queue the input and return its reply; a sender that is cancelled before its input is handled sends nothing.

        With `first`, the input comes before all that wait.
        """
        item = InputItem(given, asyncio.get_running_loop().create_future(), finished)
        self._put(item, first=first)
        assert item.reply
        return await item.reply

    def report(self, given: Input) -> None:
        """Queue an input that needs no reply."""
        self._put(InputItem(given), first=False)

    def _put(self, item: InputItem, *, first: bool) -> None:
        (self._items.appendleft if first else self._items.append)(item)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name=self._name)

    async def _work(self) -> None:
        try:
            while self._items:
                item = self._items.popleft()
                if item.reply is None or not item.reply.done():
                    await self._handle(item)
        finally:
            self._worker = None
            self._on_drained()

    async def _handle(self, item: InputItem) -> None:
        try:
            result = await self._process(item)
        except Exception as error:
            if item.reply is None:
                _logger.exception("a conversation could not be released")
            elif not item.reply.done():
                item.reply.set_exception(error)
        else:
            if item.reply and not item.reply.done():
                item.reply.set_result(result)
