"""A store that keeps new conversations in memory and reads all others from a base store.

Re-runs use it to try something on stored conversations. They write nothing to the base store except their costs,
because both stores share its ledger.
"""

from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Entry
from timeloom.ports.blobs import BlobError
from timeloom.ports.clock import Clock
from timeloom.ports.ledger import Ledger
from timeloom.ports.reader import ConversationInfo, ConversationUnknownError
from timeloom.ports.records import Records
from timeloom.ports.spend import SpendPage, SpendQuery
from timeloom.ports.store import Store
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.overlay_records import OverlayRecords
from timeloom.wire.chain import ChainLink
from timeloom.wire.heads import Head


class OverlayStore(MemoryStore):
    """A `Store` in memory on top of a base store, which it reads and never writes to."""

    def __init__(self, base: Store, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._base = base
        self._overlay_records = OverlayRecords(base.records, self._check_open)

    @property
    def ledger(self) -> Ledger:
        """The ledger of the base store, because the costs of a trial are real."""
        return self._base.ledger

    @property
    def records(self) -> Records:
        """The records of the base store, with changes that stay in memory."""
        return self._overlay_records

    async def is_held(self, conversation: ConversationId) -> bool:
        try:
            return await super().is_held(conversation)
        except ConversationUnknownError:
            return await self._base.is_held(conversation)

    async def info(self, conversation: ConversationId) -> ConversationInfo:
        try:
            return await super().info(conversation)
        except ConversationUnknownError:
            return await self._base.info(conversation)

    async def load(self, conversation: ConversationId, after: int = 0, limit: int | None = None) -> list[Entry]:
        try:
            return await super().load(conversation, after, limit)
        except ConversationUnknownError:
            return await self._base.load(conversation, after, limit)

    async def load_chain(
        self, conversation: ConversationId, after: int = 0, limit: int | None = None
    ) -> list[ChainLink]:
        try:
            return await super().load_chain(conversation, after, limit)
        except ConversationUnknownError:
            return await self._base.load_chain(conversation, after, limit)

    async def load_heads(self, conversation: ConversationId) -> list[Head]:
        return await self._base.load_heads(conversation)

    async def read_spend(self, query: SpendQuery) -> SpendPage:
        return await self._base.read_spend(query)

    async def load_snapshot(self, conversation: ConversationId, version: str) -> tuple[int, bytes] | None:
        own = await super().load_snapshot(conversation, version)
        return own or await self._base.load_snapshot(conversation, version)

    async def read_blob(self, tenant: str, ref: BlobRef) -> bytes:
        try:
            return super()._read_payload(tenant, ref)
        except BlobError:
            return await self._base.read_blob(tenant, ref)

    def _read_payload(self, tenant: str, ref: BlobRef) -> bytes:
        # An append calls this to check that a payload exists, or to index its words, which are not searched here. A
        # payload that is not in memory is in the base store; reading it would cost time in proportion to its size.
        return self._blobs.get((tenant, ref), b"")
