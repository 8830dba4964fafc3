"""The journal port: makes entries durable in order, with one writer per conversation."""

from collections.abc import Sequence
from typing import Protocol

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.leases import Lease


class ConflictError(CodedError):
    """Another writer appended first; `tail` is the current end of the conversation."""

    def __init__(self, conversation: ConversationId, expected_tail: int, tail: int) -> None:
        super().__init__("conflict", f"conversation {conversation} ends at {tail}, not at {expected_tail}")
        self.tail = tail


class Journal(Protocol):
    """Appends entries. Each numbered promise is checked by `timeloom.testing.store_contract`.

    1. Entries that `append` returned are durable: they survive a crash of the process and a power failure.
    2. The drafts of one append become durable together or not at all.
    3. Entries are numbered from 1 without gaps. An append whose expected tail is not the tail raises `ConflictError`
       and changes nothing.
    4. The first entry of a conversation is a `ConversationStarted`, and no later entry is.
    5. Returned entries contain references in place of binary data and large texts. Equal payloads of one tenant are
       stored once.
    6. The cost of an append depends on the appended data, not on the stored data.
    7. While a conversation is leased, only an append with that lease is accepted. An append without a lease raises
       `ConversationHeldError`, one with an ended lease raises `LeaseLostError`, and both change nothing.
    """

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        """Append the drafts after the entry `expected_tail` (0: a new conversation) and return the stored entries."""
        ...

    async def begin(
        self, conversation: ConversationId, drafts: Sequence[Draft], holder: str
    ) -> tuple[tuple[Entry, ...], Lease]:
        """Create a conversation and lease it, durable together; raises `ConflictError` if it already exists."""
        ...

    async def delete(self, conversation: ConversationId) -> None:
        """Delete the conversation, its snapshots, and the payloads that no other conversation of its tenant uses.

        A lease does not prevent deletion; its holder gets an error at the next append.
        """
        ...
