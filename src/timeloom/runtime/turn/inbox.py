"""The inbox of a running turn: appends messages at once, and interrupts the turn if they require it."""

import asyncio
from collections.abc import Sequence

from timeloom.core.blocks import ApprovalDecided, CompactionRequested, ExternalEvent, Followup, Steer
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.paths import EventAttachmentPath
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import CANCEL_EVENT
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.attachments import AttachmentBlock, IncomingFile, attach_files
from timeloom.tools.react.compact import check_compaction

InboxEvent = Followup | Steer | ExternalEvent
"""A message or event that is sent to a running turn."""


def attach_to_event(
    event: InboxEvent, files: Sequence[IncomingFile], turn: TurnId, session: Session
) -> list[AttachmentBlock]:
    """Return the blocks that attach the files to the event, under paths that contain the event's id."""
    match event:
        case Followup():
            kind = "followup"
        case Steer():
            kind = "steer"
        case ExternalEvent():
            kind = event.kind
    return attach_files(files, lambda name: EventAttachmentPath(turn, kind, event.message_id, name), session)


class Inbox:
    """Appends messages to the running turn; a steer or a cancellation interrupts its current step."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.interrupt = asyncio.Event()
        """Set by a steer or a cancellation until the turn loop has handled it."""

    async def follow_up(
        self,
        text: str,
        files: Sequence[IncomingFile] = (),
        started_ts: str = "",
        author: str = "user",
        quoted_roles: tuple[str, ...] = (),
    ) -> Entry | None:
        """Add a follow-up to the running turn; None if no turn is running, so that the caller opens one."""
        message = self._session.new_message_id()
        block = Followup(message_id=message, text=text, started_ts=started_ts, author=author, quoted_roles=quoted_roles)
        return await self._append_event(block, files)

    async def steer(
        self, text: str = "", files: Sequence[IncomingFile] = (), started_ts: str = "", author: str = "user"
    ) -> Entry | None:
        """Redirect the running turn at once; empty text stops it. None if no turn is running.

        A compaction that runs without a turn is interrupted: its summary is then written without a model.
        """
        steer = Steer(message_id=self._session.new_message_id(), text=text, started_ts=started_ts, author=author)
        entry = await self._append_event(steer, files, interrupts=True)
        if entry is None and self._session.views.compactions.pending:
            self.interrupt.set()
        return entry

    async def add_event(self, event: ExternalEvent, files: Sequence[IncomingFile] = ()) -> Entry | None:
        """Add an external event to the running turn; None if no turn is running."""
        return await self._append_event(event, files)

    async def cancel(self, by: str, text: str = "") -> Entry | None:
        """Cancel the running turn at once on behalf of `by`; None if no turn is running."""
        event = ExternalEvent(kind=CANCEL_EVENT, message_id=self._session.new_message_id(), text=text, author=by)
        return await self._append_event(event, interrupts=True)

    async def request_compaction(
        self, focus: str = "", keep: int = 0, message_id: MessageId | None = None, author: str = "user"
    ) -> Entry:
        """Record a request to compact the conversation and return its entry; `TurnRunner.resume` carries it out.

        A request with the id of an earlier one returns the earlier entry. Raises `compaction_malformed`.
        """
        check_compaction(keep, focus)
        request_id, views = message_id or self._session.new_message_id(), self._session.views
        request = CompactionRequested(message_id=request_id, text=focus, keep=keep, author=author)
        while True:
            if seq := views.compactions.requests.get(request_id):
                return (await self._session.entries([seq]))[0]
            if entries := await self._session.append([request], views.progress.turn_id, after=views.tail):
                return entries[0]

    async def decide(self, call_id: CallId, approved: bool, by: str, text: str = "") -> Entry | None:
        """Record a person's decision on that call; None if no decision is pending.

        `TurnRunner.resume` continues the turn.
        """
        decided = ApprovalDecided(tool_call_id=call_id, approved=approved, by=by, text=text)
        while self._is_pending(call_id):
            entries = await self._session.append(
                [decided], self._session.views.progress.turn_id, after=self._session.views.tail
            )
            if entries:
                return entries[0]
        return None

    def _is_pending(self, call_id: CallId) -> bool:
        progress = self._session.views.progress
        questions = (progress.open_call, progress.model_call)
        return progress.running and any(one and one.call_id == call_id and one.is_pending for one in questions)

    async def _append_event(
        self, event: InboxEvent, files: Sequence[IncomingFile] = (), *, interrupts: bool = False
    ) -> Entry | None:
        views = self._session.views
        # The turn may end while this waits to be appended; an event after its end would be ignored.
        while views.progress.running:
            turn = views.progress.turn_id
            attached = attach_to_event(event, files, turn, self._session)
            entries = await self._session.append([event, *attached], turn, after=views.tail)
            if entries:
                if interrupts:
                    self.interrupt.set()
                return entries[0]
        return None
