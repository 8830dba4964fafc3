"""Adds messages and events to the running turn of a conversation, by their kind."""

from typing import Final

from timeloom.core.blocks import ExternalEvent
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import CANCEL_EVENT
from timeloom.runtime.hub.state import COMPACT_EVENT, IncomingMessage, SendStatus
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.inbox import Inbox

_MESSAGE_KINDS: Final = frozenset({"followup", "steer", COMPACT_EVENT, CANCEL_EVENT})
"""The kinds with a meaning for the runtime; all others are external events."""


def to_external_event(session: Session, message: IncomingMessage) -> ExternalEvent | None:
    """Return the external event that the message is; None for the kinds with a meaning for the runtime."""
    if message.kind in _MESSAGE_KINDS:
        return None
    return ExternalEvent(
        kind=message.kind,
        message_id=session.new_message_id(),
        text=message.text,
        mime=message.mime,
        started_ts=message.started_ts,
        author=message.by,
    )


async def add_to_turn(
    inbox: Inbox, message: IncomingMessage, event: ExternalEvent | None
) -> tuple[Entry | None, SendStatus]:
    """Add the message or event to the running turn; return its entry, or None if no turn runs, and how it counts."""
    text, files, author, started_ts = message.text, message.files, message.author, message.started_ts
    if event:
        return await inbox.add_event(event, files), "told"
    match message.kind:
        case "steer":
            return await inbox.steer(text, files, started_ts, author), "steered"
        case kind if kind == CANCEL_EVENT:
            return await inbox.cancel(message.by, text), "cancelled"
        case _:
            return await inbox.follow_up(text, files, started_ts, author, message.quoted_roles), "followup"
