"""The reader port: reads and searches stored conversations."""

from collections.abc import AsyncIterator, Collection
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
    """A conversation as lists show it."""

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
    """Selects conversations; empty fields, except the tenant, match all."""

    tenant: str
    project: str = ""
    user: str = ""
    words: str = ""
    """Words that the title, user messages or answers must contain: all of them, as prefixes, ignoring case and
    accents."""
    cursor: str = ""
    limit: int = 50


class ConversationPage(msgspec.Struct, frozen=True):
    """Conversations, newest first; `cursor` requests the next page and is empty at the end."""

    conversations: tuple[ConversationInfo, ...]
    cursor: str = ""


class OpenTurnQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Selects conversations of a project whose newest turn is open; an empty user matches all."""

    tenant: str
    project: str
    user: str = ""
    after: str = ""
    """The id after which the page begins."""
    limit: int = 100


class Reader(Protocol):
    """Reads durable entries only."""

    async def info(self, conversation: ConversationId) -> ConversationInfo:
        """Return the conversation's list data; raises `ConversationUnknownError`."""
        ...

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries after that seq, at most `limit`; raises `ConversationUnknownError`."""
        ...

    def follow(self, conversation: ConversationId, after: int = 0) -> AsyncIterator[Entry]:
        """Yield the entries after that seq, then each new one once it is durable; ends when it is deleted."""
        ...

    async def conversations(self, query: ConversationQuery) -> ConversationPage:
        """Return one page of matching conversations, newest first."""
        ...

    async def conversations_with_open_turn(self, query: OpenTurnQuery) -> list[ConversationInfo]:
        """Return one page of a project's conversations with an open turn or compaction, in the order of their ids.

        The cost does not grow with the number of conversations without an open turn.
        """
        ...

    async def having_open_turn(self, conversations: Collection[ConversationId]) -> frozenset[ConversationId]:
        """Return those of the given conversations with an open turn or compaction; unknown ids are left out."""
        ...

    async def idle_conversations(self, before: str, after: str = "", limit: int = 100) -> list[ConversationInfo]:
        """Return conversations of every tenant whose last entry is older than that time, by id, after that id.

        For operators, never for users. The cost depends on the number of conversations, not of entries.
        """
        ...

    async def search_messages(self, conversation: ConversationId, words: str, limit: int = 10) -> list[int]:
        """Return the seqs of its title, user messages and answers that contain any of the words, newest first."""
        ...
