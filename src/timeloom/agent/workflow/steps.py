"""The agent's part of a workflow's turn: runs the steps of the turn, and tells the driver whether they run."""

import asyncio
from typing import Literal

from timeloom.core.policy.next_step import EndTurn
from timeloom.runtime.turn.inbox import Inbox
from timeloom.runtime.turn.loop import TurnRunner

StepsEnd = EndTurn | Literal["waiting", "ended"]
"""How the steps stopped: the end that the policy chose, a wait for a person, or a turn that has ended already."""


class TurnSteps:
    """The steps of one call of a workflow; a second run waits for the first one."""

    def __init__(self) -> None:
        self.end: StepsEnd | None = None
        """How the last run stopped; None if there was none."""
        self.error: Exception | None = None
        """The error of the store or of timeloom that stopped the last run."""
        self.phase = 0
        """The entry of the newest note that the workflow passed in this call; 0 before the first."""
        self._lock = asyncio.Lock()
        self._idle = asyncio.Event()
        self._idle.set()
        self._busy = asyncio.Event()

    @property
    def is_running(self) -> bool:
        """Whether steps run now; a steer or a cancellation interrupts them."""
        return self._busy.is_set()

    async def run(self, turns: TurnRunner) -> StepsEnd:
        """Run the steps of the open turn until the policy ends it or a person has to decide."""
        async with self._lock:
            self._idle.clear()
            self._busy.set()
            try:
                self.end = await turns.run_steps() or "ended"
            except Exception as error:
                self.error = error
                raise
            finally:
                self._busy.clear()
                self._idle.set()
        return self.end

    async def wait_for_interrupt(self, inbox: Inbox) -> None:
        """Wait until the inbox is interrupted while no steps run; running steps handle an interrupt themselves."""
        while True:
            await self._idle.wait()
            await _wait_for_any(inbox.interrupt, self._busy)
            if not self.is_running:
                return

    async def wait_idle_for(self, seconds: float) -> None:
        """Wait until no steps have run for that many seconds."""
        while True:
            await self._idle.wait()
            try:
                await asyncio.wait_for(self._busy.wait(), seconds)
            except TimeoutError:
                return


async def _wait_for_any(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
