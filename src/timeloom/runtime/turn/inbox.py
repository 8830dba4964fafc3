"""The inbox of a running turn: appends messages at once, and interrupts the turn if they require it."""

import asyncio
from collections.abc import Sequence

from timeloom.core.blocks import ApprovalDecided, ExternalEvent, Followup, Steer
from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths import EventAttachmentPath
from timeloom.core.sources import SourcesPool
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import CANCEL
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.attachments import AttachmentBlock, TextFile, attach

LiveEvent = Followup | Steer | ExternalEvent
"""A message or event that is sent to a running turn."""


def attach_to(event: LiveEvent, files: Sequence[TextFile], turn: TurnId, pool: SourcesPool) -> list[AttachmentBlock]:
    """Return the blocks that attach the files to the event, under paths that contain the event's id."""
    match event:
        case Followup():
            kind = "followup"
        case Steer():
            kind = "steer"
        case ExternalEvent():
            kind = event.kind
    return attach(files, lambda name: EventAttachmentPath(turn, kind, event.message_id, name), pool)


class Inbox:
    """Appends messages to the running turn; a steer or a cancellation interrupts its current step."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.interrupt = asyncio.Event()
        """Set by a steer or a cancellation until the turn loop has handled it."""

    async def follow_up(
        self, text: str, files: Sequence[TextFile] = (), started_ts: str = "", author: str = "user"
    ) -> Entry | None:
        """Add a follow-up to the running turn; None if no turn is running, so that the caller opens one."""
        message = self._session.new_message_id()
        return await self._say(Followup(message_id=message, text=text, started_ts=started_ts, author=author), files)

    async def steer(
        self, text: str = "", files: Sequence[TextFile] = (), started_ts: str = "", author: str = "user"
    ) -> Entry | None:
        """Redirect the running turn at once; empty text stops it. None if no turn is running."""
        steer = Steer(message_id=self._session.new_message_id(), text=text, started_ts=started_ts, author=author)
        return await self._say(steer, files, interrupts=True)

    async def tell(self, event: ExternalEvent, files: Sequence[TextFile] = ()) -> Entry | None:
        """Add an external event to the running turn; None if no turn is running."""
        return await self._say(event, files)

    async def cancel(self, by: str, text: str = "") -> Entry | None:
        """Cancel the running turn at once on behalf of `by`; None if no turn is running."""
        event = ExternalEvent(kind=CANCEL, message_id=self._session.new_message_id(), text=text, author=by)
        return await self._say(event, interrupts=True)

    async def decide(self, call_id: CallId, approved: bool, by: str, text: str = "") -> Entry | None:
        """Record a person's decision on that call; None if no decision is pending.

        `TurnRunner.resume` continues the turn.
        """
        decided = ApprovalDecided(tool_call_id=call_id, approved=approved, by=by, text=text)
        while self._is_asked(call_id):
            said = await self._session.append(
                [decided], self._session.views.progress.turn_id, after=self._session.views.tail
            )
            if said:
                return said[0]
        return None

    def _is_asked(self, call_id: CallId) -> bool:
        progress = self._session.views.progress
        questions = (progress.open_call, progress.model_call)
        return progress.running and any(one and one.call_id == call_id and one.is_asked for one in questions)

    async def _say(self, event: LiveEvent, files: Sequence[TextFile] = (), *, interrupts: bool = False) -> Entry | None:
        views = self._session.views
        # The turn may end while this waits to be appended; an event after its end would be ignored.
        while views.progress.running:
            turn = views.progress.turn_id
            attached = attach_to(event, files, turn, views.sources.pool)
            said = await self._session.append([event, *attached], turn, after=views.tail)
            if said:
                if interrupts:
                    self.interrupt.set()
                return said[0]
        return None
