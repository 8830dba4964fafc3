"""The inbox: what a user sends while a turn runs, put on the timeline at once, and what it interrupts."""

import asyncio

from timeloom.core.blocks import Followup, Steer
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry
from timeloom.runtime.session import Session


class Inbox:
    """Takes follow-ups and steers for the running turn; a steer interrupts what is running."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.interrupt = asyncio.Event()
        """Set by a steer, until the loop has heard it."""

    async def follow_up(self, text: str) -> Entry | None:
        """Adds to what the running turn was asked; None where no turn takes it, so that it opens the next."""
        turn = self._turn()
        if turn is None:
            return None
        message = Followup(message_id=self._session.new_message_id(), text=text)
        (entry,) = await self._session.append([message], turn)
        return entry

    async def steer(self, text: str = "") -> Entry | None:
        """Changes the running turn's course at once; empty text stops it. None where no turn is running."""
        turn = self._turn()
        if turn is None:
            return None
        (entry,) = await self._session.append([Steer(message_id=self._session.new_message_id(), text=text)], turn)
        self.interrupt.set()
        return entry

    def _turn(self) -> TurnId | None:
        progress = self._session.views.progress
        return progress.turn_id if progress.running else None
