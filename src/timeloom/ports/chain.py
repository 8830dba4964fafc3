"""The chain port: reads the hash chain of a conversation, by which changes behind the store's back are found."""

from typing import Protocol

from timeloom.core.ids import ConversationId
from timeloom.wire.chain import ChainLink
from timeloom.wire.heads import Head


class ChainReader(Protocol):
    """Reads the links of entries. Each numbered promise is checked by `timeloom.testing.store_contract`.

    1. Each entry that `append` stores carries the hash of the entry before it. The first entry of a conversation
       carries `hash_before_first`, and so does the first one that is appended to a conversation without a chain.
    2. The salt of an entry is random and different for each entry.
    3. An erase keeps the hashes of all entries. It replaces the salts of the erased entries, and the `conv.erased`
       block that records it has the salted hashes of the forms that replaced them.
    """

    async def load_chain(
        self, conversation: ConversationId, after: int = 0, limit: int | None = None
    ) -> list[ChainLink]:
        """Return the links of the entries after that seq, at most `limit`; raises `ConversationUnknownError`."""
        ...

    async def load_heads(self, conversation: ConversationId) -> list[Head]:
        """Return the heads that the store keeps outside the journal; none if it keeps none."""
        ...
