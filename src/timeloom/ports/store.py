"""The store port: combines all storage ports and adds verification."""

from typing import Protocol

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.ports.blobs import Blobs
from timeloom.ports.chain import ChainReader
from timeloom.ports.eraser import Eraser
from timeloom.ports.feedback import FeedbackReader
from timeloom.ports.importer import Importer
from timeloom.ports.journal import Journal
from timeloom.ports.leases import Leases
from timeloom.ports.ledger import Ledger
from timeloom.ports.reader import Reader
from timeloom.ports.records import Records
from timeloom.ports.snapshots import Snapshots
from timeloom.ports.spend import SpendReader


class StoreError(CodedError):
    """The store or one conversation cannot be opened, read or written; the message says what remains usable."""


class StoreProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem in a store: a registered code, its location, and a sentence that names the fix."""

    code: str
    message: str
    conversation: ConversationId | None = None
    seq: int | None = None


class ChainStart(msgspec.Struct, frozen=True):
    """A conversation whose older entries have no hash chain: the seq at which its chain begins; 0 if it has none."""

    conversation: ConversationId
    seq: int


class VerifyReport(msgspec.Struct, frozen=True):
    """The result of a verification: the numbers of checked objects, and the problems found."""

    conversations: int
    entries: int
    blobs: int
    findings: tuple[StoreProblem, ...]
    orphans: int = 0
    """Number of payloads that no entry refers to, left by incomplete appends. They are harmless."""
    erased: int = 0
    """Number of entries that an erase replaced, as the timeline records it."""
    late_chains: tuple[ChainStart, ...] = ()
    """Conversations with entries that were stored before hash chains existed."""
    records: int = 0
    """Number of records, such as API keys."""


class Store(
    Journal, Importer, Eraser, ChainReader, Leases, Reader, FeedbackReader, SpendReader, Blobs, Snapshots, Protocol
):
    """All storage that a runtime needs."""

    @property
    def ledger(self) -> Ledger:
        """The shared budgets of the conversations in this store."""
        ...

    @property
    def records(self) -> Records:
        """The records that people keep beside conversations, such as API keys and the state of bundles."""
        ...

    @property
    def write_failure(self) -> str:
        """Why the last write of this process failed; empty if it succeeded.

        Only failures of the disk count. A refused append, such as one after another writer's, is none.
        """
        ...

    async def probe_write(self) -> None:
        """Write something that changes nothing, durably, so that `write_failure` is up to date."""
        ...

    async def conversation_ids(self, after: str = "", limit: int = 1000) -> list[ConversationId]:
        """Return ids greater than `after`, of every tenant, in order; for operators, never for users."""
        ...

    async def open_turns(self, after: str = "", limit: int = 1000) -> list[ConversationId]:
        """Return ids greater than `after` of conversations whose newest turn is open, of every tenant, in order.

        A conversation with a requested compaction that has no outcome is listed as well. The cost does not grow with
        the number of other conversations. The result does not tell who leases them.
        """
        ...

    async def verify(self) -> VerifyReport:
        """Read everything and report damage with its conversation; changes nothing."""
        ...

    async def close(self) -> None:
        """Finish accepted writes and close files; closing twice does nothing."""
        ...
