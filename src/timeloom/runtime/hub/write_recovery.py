"""Resumes turns that stopped because the store could not be written, once it can be written again."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.platform.tasks import cancel_and_wait

MAX_RESUMES: Final = 5
"""How often a turn is resumed until it stops without a failed write. Each time may cost a model call, so a disk that
takes small writes and no large ones must not repeat them without end."""

RETRY_DELAYS_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, *(60.0,) * 60)
"""Seconds before each attempt to resume while writes fail, about an hour in all. After the last one, turns wait for
the next entry that any conversation stores."""

_logger = logging.getLogger(__name__)


def is_write_failure(error: CodedError) -> bool:
    """Whether the store could not be written, for example because the disk is full."""
    return error.code == "store_unwritable"


class WriteRecovery:
    """Remembers turns that a failed write stopped, and resumes them one after the other until a write fails again."""

    def __init__(
        self, resume: Callable[[ConversationId], Awaitable[None]], delays_s: Sequence[float] = RETRY_DELAYS_S
    ) -> None:
        self._resume = resume
        self._delays_s = delays_s
        self._waiting: dict[ConversationId, float] = {}
        """The turns to resume, oldest first, each with the loop's time before which it is not resumed."""
        self._resumes: Counter[ConversationId] = Counter()
        self._written = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def waiting(self) -> tuple[ConversationId, ...]:
        """The conversations whose turns wait until the store can be written, oldest first."""
        return tuple(self._waiting)

    def on_write_failed(self, conversation: ConversationId) -> None:
        """Take in a turn that stopped, or could not be resumed, because a write failed."""
        if self._resumes[conversation] >= MAX_RESUMES:
            self.on_turn_stopped(conversation)
            _logger.error(
                "the turn is not resumed again, because writes keep failing",
                extra={"fields": {"conversation_id": conversation}},
            )
            return
        self._waiting[conversation] = self._earliest(self._resumes[conversation])
        self._start()

    def on_turn_stopped(self, conversation: ConversationId) -> None:
        """Forget a conversation whose turn ended, waits for a person, or failed for another reason."""
        self._waiting.pop(conversation, None)
        del self._resumes[conversation]

    def on_stored(self) -> None:
        """Resume the waiting turns now, because an entry was stored; not those that were already resumed in vain."""
        if self._waiting:
            self._written.set()
            self._start()

    async def close(self) -> None:
        """Stop resuming; the turns stay open and are resumed at the next start."""
        self._closed = True
        if self._task:
            await cancel_and_wait(self._task)

    def _earliest(self, resumes: int) -> float:
        """Return when a turn may be resumed: at once, or later each time if the disk takes only other writes."""
        return asyncio.get_running_loop().time() + self._delays_s[-1] * 4 ** (resumes - 1) if resumes else 0.0

    def _start(self) -> None:
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._retry(), name="resuming after failed writes")

    async def _retry(self) -> None:
        failures = 0
        try:
            while self._waiting and failures < len(self._delays_s):
                earliest_s = min(self._waiting.values()) - asyncio.get_running_loop().time()
                await self._wait(max(self._delays_s[failures], earliest_s))
                failures = 0 if await self._resume_waiting() else failures + 1
        finally:
            self._task = None
        if self._waiting:
            _logger.error(
                "the store cannot be written; open turns wait for the next write that succeeds",
                extra={"fields": {"turns": len(self._waiting)}},
            )

    async def _wait(self, delay_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._written.wait()
        self._written.clear()

    async def _resume_waiting(self) -> bool:
        """Resume the waiting turns that may be; returns False at the first write that fails."""
        now = asyncio.get_running_loop().time()
        for conversation in [one for one, earliest in self._waiting.items() if earliest <= now]:
            try:
                await self._resume(conversation)
            except CodedError as error:
                if is_write_failure(error):
                    return False
                # Another process holds the conversation and runs its turn, or it was deleted.
                fields = {"conversation_id": conversation, "code": error.code}
                _logger.info("an interrupted turn is not resumed", extra={"fields": fields})
                self.on_turn_stopped(conversation)
            else:
                self._waiting.pop(conversation, None)
                self._resumes[conversation] += 1
        return True
