"""The store port: all that one place keeps of conversations, and the check of its health."""

from typing import Protocol

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.blobs import Blobs
from timeloom.ports.eraser import Erasing
from timeloom.ports.feedback import Judged
from timeloom.ports.journal import Journal
from timeloom.ports.leases import Leases
from timeloom.ports.ledger import Ledger
from timeloom.ports.reader import Reader
from timeloom.ports.snapshots import Snapshots


class StoreError(CodedError):
    """The store, or one conversation of it, cannot be opened, read or written; the message says what stays usable."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something wrong with a store: a code of the registry, where, and a sentence that says what to do."""

    code: str
    message: str
    conversation: ConversationId | None = None
    seq: int | None = None


class Verified(msgspec.Struct, frozen=True):
    """What a check looked at and what it found."""

    conversations: int
    entries: int
    blobs: int
    findings: tuple[Finding, ...]
    orphans: int = 0
    """Payloads to which no entry refers: what an append left that never came to its end. They harm nothing."""


class Store(Journal, Erasing, Leases, Reader, Judged, Blobs, Snapshots, Protocol):
    """All that a runtime needs of a place to keep conversations."""

    @property
    def ledger(self) -> Ledger:
        """What the conversations of this place may spend together."""
        ...

    async def conversation_ids(self, after: str = "", limit: int = 1000) -> list[ConversationId]:
        """Ids greater than `after`, of every tenant, in order; for those who look after the place, never for users."""
        ...

    async def open_turns(self, after: str = "", limit: int = 1000) -> list[ConversationId]:
        """Ids greater than `after` of conversations whose newest turn has not ended, of every tenant, in order.

        What that costs does not grow with the conversations that have none. It says nothing of who holds them.
        """
        ...

    async def verify(self) -> Verified:
        """Reads everything and reports what is damaged, naming the conversation; changes nothing."""
        ...

    async def close(self) -> None:
        """Finishes what was accepted and lets go of files; a second close does nothing."""
        ...
