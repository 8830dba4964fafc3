"""The aside store: what is begun here is kept in memory, and everything else is read from another store.

It is for trials on what a store holds. They leave nothing behind in it but what they spend: its ledger is the other's.
"""

from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Entry
from timeloom.ports.blobs import BlobError
from timeloom.ports.clock import Clock
from timeloom.ports.ledger import Ledger
from timeloom.ports.reader import ConversationInfo, ConversationUnknownError
from timeloom.ports.store import Store
from timeloom.stores.in_memory.store import MemoryStore


class AsideStore(MemoryStore):
    """A `Store` for as long as the process lives, on top of one that it reads and does not write to."""

    def __init__(self, beneath: Store, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._beneath = beneath

    @property
    def ledger(self) -> Ledger:
        """The ledger of the store beneath: what a trial spends is spent."""
        return self._beneath.ledger

    async def is_held(self, conversation: ConversationId) -> bool:
        try:
            return await super().is_held(conversation)
        except ConversationUnknownError:
            return await self._beneath.is_held(conversation)

    async def info(self, conversation: ConversationId) -> ConversationInfo:
        try:
            return await super().info(conversation)
        except ConversationUnknownError:
            return await self._beneath.info(conversation)

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        try:
            return await super().load(conversation, after, limit)
        except ConversationUnknownError:
            return await self._beneath.load(conversation, after, limit)

    async def load_snapshot(self, conversation: ConversationId, version: str) -> tuple[int, bytes] | None:
        own = await super().load_snapshot(conversation, version)
        return own or await self._beneath.load_snapshot(conversation, version)

    async def read_blob(self, tenant: str, ref: BlobRef) -> bytes:
        try:
            return super()._read(tenant, ref)
        except BlobError:
            return await self._beneath.read_blob(tenant, ref)

    def _read(self, tenant: str, ref: BlobRef) -> bytes:
        # Asked for by an append, which wants to know that it is there, or its words for a search that nobody makes
        # here: what is not of here is of the store beneath, and reading it would cost as much as it is large.
        return self._blobs.get((tenant, ref), b"")
