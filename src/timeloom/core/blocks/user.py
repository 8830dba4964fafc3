"""Blocks from users and external systems: prompts, attachments, events and feedback."""

import re
from typing import ClassVar, Literal

from timeloom.core.blocks.block import Block, BlockError, need_message, need_path, need_text
from timeloom.core.blocks.content import ContentBlock
from timeloom.core.blocks.digest import Digest
from timeloom.core.ids import MessageId, TurnId
from timeloom.core.payload import Text

Reaction = Literal["ok", "not_ok", "neutral"]
Origin = Literal["user", "machine"]

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class UserPrompt(Block, tag="user.prompt", frozen=True, kw_only=True):
    """The user message that opens the turn."""

    type_name: ClassVar[str] = "user.prompt"
    text: Text
    author: str = "user"
    quoted_roles: tuple[str, ...] = ()
    """Roles of the messages that the text quotes from a client's history, except those of the user."""

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.user.prompt"


class AttachmentMeta(Block, tag="user.attachment.meta", frozen=True, kw_only=True):
    """Metadata of an attachment: its digest and the summary line for the prompt."""

    type_name: ClassVar[str] = "user.attachment.meta"
    fixed_mime: ClassVar[str] = "application/json"
    digest: Digest
    summary: str = ""
    author: str = "user"

    def __post_init__(self) -> None:
        need_path(self.digest.artifact_path, "digest.artifact_path")

    def path(self, turn: TurnId) -> str:
        return self.digest.artifact_path


class Attachment(ContentBlock, tag="user.attachment", frozen=True, kw_only=True):
    """Content of an attachment."""

    type_name: ClassVar[str] = "user.attachment"
    author: str = "user"


class Followup(Block, tag="user.followup", frozen=True, kw_only=True):
    """A user message sent during the turn; `started_ts` is the time of sending if it is earlier than the entry's."""

    type_name: ClassVar[str] = "user.followup"
    message_id: MessageId
    text: Text
    started_ts: str = ""
    author: str = "user"
    quoted_roles: tuple[str, ...] = ()
    """As in `UserPrompt`."""

    def __post_init__(self) -> None:
        need_message(self.message_id)

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.external.followup.{self.message_id}"


class Steer(Block, tag="user.steer", frozen=True, kw_only=True):
    """A user message that redirects the turn at once; empty text means stop. `started_ts` is as in `Followup`."""

    type_name: ClassVar[str] = "user.steer"
    message_id: MessageId
    text: Text = ""
    started_ts: str = ""
    author: str = "user"

    def __post_init__(self) -> None:
        need_message(self.message_id)

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.external.steer.{self.message_id}"


class ExternalEvent(Block, tag="external.event", frozen=True, kw_only=True):
    """Any other external event, such as a form, a wizard step or an alert; `started_ts` is the event's time."""

    type_name: ClassVar[str] = "external.event"
    kind: str
    message_id: MessageId
    text: Text = ""
    mime: str = "text/markdown"
    started_ts: str = ""
    author: str = "external"

    def __post_init__(self) -> None:
        need_message(self.message_id)
        need_text(self.mime, "mime")
        if not _KIND.fullmatch(self.kind):
            raise BlockError(f"kind is 1 to 64 of a-z, 0-9, '_', '-', got {self.kind[:40]!r}")

    def mime_type(self) -> str:
        return self.mime

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.external.{self.kind}.{self.message_id}"


class Feedback(Block, tag="turn.feedback", frozen=True, kw_only=True):
    """Feedback on the turn by a person or a machine. A person's newest reaction counts; null clears it."""

    type_name: ClassVar[str] = "turn.feedback"
    origin: Origin
    reaction: Reaction | None = None
    text: str = ""
    confidence: float | None = None
    given_ts: str = ""
    """Time of the feedback as reported by its sender; empty if it is the entry's time."""
    author: str = "user"

    def __post_init__(self) -> None:
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise BlockError(f"confidence is between 0 and 1, got {self.confidence}")
