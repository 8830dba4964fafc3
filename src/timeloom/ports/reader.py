"""The reader port: what anybody may ask of stored conversations."""

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry


class ConversationUnknownError(CodedError):
    """No conversation has this id."""

    def __init__(self, conversation: ConversationId) -> None:
        super().__init__("conversation_unknown", f"no conversation has the id {conversation[:60]!r}")


class ConversationInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a list shows of a conversation."""

    id: ConversationId
    tenant: str
    project: str
    user: str
    bundle: str = ""
    title: str = ""
    parent: ConversationId | None = None
    started_ts: str
    last_ts: str
    tail: int


class ConversationQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which conversations are asked for; what is empty does not narrow, except the tenant."""

    tenant: str
    project: str = ""
    user: str = ""
    words: str = ""
    """Words that title, user messages or answers contain; all of them, as prefixes, case and accents aside."""
    cursor: str = ""
    limit: int = 50


class ConversationPage(msgspec.Struct, frozen=True):
    """Newest first; `cursor` asks for what follows and is empty at the end."""

    conversations: tuple[ConversationInfo, ...]
    cursor: str = ""


class Reader(Protocol):
    """Reads what is durable, and nothing else."""

    async def info(self, conversation: ConversationId) -> ConversationInfo:
        """What a list shows of it; raises `ConversationUnknownError`."""
        ...

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        """The entries after that seq, at most `limit`; raises `ConversationUnknownError`."""
        ...

    def follow(self, conversation: ConversationId, after: int = 0) -> AsyncIterator[Entry]:
        """The entries after that seq, then each new one as it becomes durable; ends at its deletion."""
        ...

    async def conversations(self, query: ConversationQuery) -> ConversationPage:
        """One page of those that match, newest first."""
        ...

    async def find_said(self, conversation: ConversationId, words: str, limit: int = 10) -> list[int]:
        """The seqs of its title, user messages and answers that contain any of the words, newest first."""
        ...
