"""Opens a turn: the first entries of every turn are made here."""

from collections.abc import Sequence

from timeloom.core.blocks import Attachment, AttachmentMeta, ExternalEvent, TurnStarted, UserPrompt
from timeloom.core.ids import TurnId
from timeloom.core.paths import AttachmentPath
from timeloom.core.stream.declared import NO_CHANNELS, DeclaredChannel
from timeloom.core.timeline import Entry
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.attachments import AttachmentBlock, IncomingFile, add_attachments, attach_files
from timeloom.runtime.turn.inbox import attach_to_event


async def open_turn(
    session: Session,
    message: UserPrompt | ExternalEvent,
    files: Sequence[IncomingFile] = (),
    *,
    attachments: Sequence[AttachmentMeta | Attachment] = (),
    turn_id: TurnId | None = None,
    rerun: bool = False,
    edition: int = 1,
    output: str = "",
    channels: tuple[DeclaredChannel, ...] = NO_CHANNELS,
) -> Entry:
    """Append the entries that open a turn, and return the entry of its message.

    The entries become durable with the next append or flush. `files` are attached here; `attachments` are blocks whose
    paths already contain `turn_id`. A conversation never goes back to an earlier edition. `output` is
    the JSON schema of the answer; it must have passed `parse_schema`. `channels` must have passed
    `check_declared`.
    """
    turn = turn_id or session.new_turn_id()
    turns = session.views.turns
    started = TurnStarted(
        n=len(turns.turns) + 1,
        rerun=rerun,
        edition=max(edition, turns.edition),
        output=output,
        channels=channels,
    )
    attached = [*add_attachments(attachments, session), *_attach(session, message, files, turn)]
    _, entry, *_ = await session.append_deferred([started, message, *attached], turn)
    return entry


def _attach(
    session: Session, message: UserPrompt | ExternalEvent, files: Sequence[IncomingFile], turn: TurnId
) -> list[AttachmentBlock]:
    if isinstance(message, ExternalEvent):
        return attach_to_event(message, files, turn, session)
    return attach_files(files, lambda name: AttachmentPath(turn, name), session)
