"""The journal port: the one place where entries become durable, in order, each conversation by one writer."""

from collections.abc import Sequence
from typing import Protocol

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.leases import Lease


class ConflictError(CodedError):
    """Another writer was first; `tail` is where the conversation ends now."""

    def __init__(self, conversation: ConversationId, expected_tail: int, tail: int) -> None:
        super().__init__("conflict", f"conversation {conversation} ends at {tail}, not at {expected_tail}")
        self.tail = tail


class Journal(Protocol):
    """Numbered promises, each checked by `timeloom.testing.store_contract`:

    1. What `append` returned is durable: it survives the death of the process and of the machine's power.
    2. The drafts of one append become durable together or not at all.
    3. Entries are numbered from 1 without gaps; an append whose expected tail is not the tail raises
       `ConflictError` and changes nothing.
    4. The first entry of a conversation is a `ConversationStarted`, and no later one is.
    5. What comes back has a reference in place of all bytes and every large text; equal payloads of one tenant are
       stored once.
    6. Cost follows what is appended, not what is there.
    7. While somebody holds a conversation, only an append with that lease is accepted: one without raises `HeldError`,
       one with a lease that is over raises `LeaseLostError`, and both change nothing.
    """

    async def append(
        self, conversation: ConversationId, expected_tail: int, drafts: Sequence[Draft], lease: Lease | None = None
    ) -> tuple[Entry, ...]:
        """The drafts as they are now stored, after the entry `expected_tail` (0: a new conversation)."""
        ...

    async def begin(
        self, conversation: ConversationId, drafts: Sequence[Draft], holder: str
    ) -> tuple[tuple[Entry, ...], Lease]:
        """A new conversation and the lease on it, both durable together; raises `ConflictError` where it is there."""
        ...

    async def delete(self, conversation: ConversationId) -> None:
        """Removes the conversation, its snapshots, and the payloads that no other conversation of its tenant uses.

        Nobody's lease prevents that; who holds it learns of it at the next append.
        """
        ...
