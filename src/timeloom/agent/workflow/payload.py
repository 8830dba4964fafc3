"""The payload of a workflow's call: the message to handle, where it came from, and why `run` is called."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from timeloom.core.blocks import AttachmentMeta, ExternalEvent, Followup, Steer, UserPrompt
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.payload import Text
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import CANCEL_EVENT
from timeloom.runtime.session.session import Session

PayloadCause = Literal["opened", "resumed", "message", "steer"]
"""Why `run` is called: the turn was opened, it continues after a stop, or a message or a steer arrived meanwhile."""

WORKFLOW_EVENT = "workflow"
"""The kind of the event by which a workflow passes a note to the agent."""


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """What a workflow has to handle.

    `resumed` is true if `run` was called before in this turn: the process crashed, a person decided on a call, or a
    message arrived meanwhile. Whatever `run` did before that may be done already.
    """

    conversation: ConversationId
    turn: TurnId
    tenant: str
    project: str
    user: str
    bundle: str
    message: str
    """The newest message of the turn."""
    kind: str = "prompt"
    """The kind of the newest message: `prompt`, `followup`, `steer`, or that of an external event such as `form`."""
    messages: tuple[str, ...] = ()
    """All messages of the turn, in order; the newest is the last."""
    files: tuple[str, ...] = ()
    """The logical paths of the files that are attached to the messages."""
    cause: PayloadCause = "opened"
    resumed: bool = False


async def read_payload(session: Session, cause: PayloadCause, *, resumed: bool) -> Payload:
    """Return the payload of the open turn at the tail of the timeline."""
    turn = session.views.progress.turn_id
    entries = await session.entries(list(session.views.turns.turns[turn].seqs()))
    messages = [(kind, await session.text(text)) for kind, text in _find_messages(entries)]
    kind, message = messages[-1] if messages else ("prompt", "")
    caller = session.caller
    return Payload(
        conversation=session.conversation,
        turn=turn,
        tenant=caller.tenant,
        project=caller.project,
        user=caller.user,
        bundle=caller.bundle,
        message=message,
        kind=kind,
        messages=tuple(text for _, text in messages),
        files=tuple(one.block.digest.artifact_path for one in entries if isinstance(one.block, AttachmentMeta)),
        cause=cause,
        resumed=resumed,
    )


def _find_messages(entries: Sequence[Entry]) -> list[tuple[str, Text]]:
    found: list[tuple[str, Text]] = []
    for entry in entries:
        match entry.block:
            case UserPrompt(text=text):
                found.append(("prompt", text))
            case Followup(text=text):
                found.append(("followup", text))
            case Steer(text=text) if text:
                found.append(("steer", text))
            case ExternalEvent(kind=kind, text=text) if kind not in (CANCEL_EVENT, WORKFLOW_EVENT):
                found.append((kind, text))
            case _:
                pass
    return found
