"""The leases port: grants the right to append to a conversation to one holder at a time."""

from typing import Final, Protocol

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId

HOLDER_CHARS: Final = 100
"""Maximum length of a holder's name. The name is for people; longer ones would make error messages unreadable."""


class Lease(msgspec.Struct, frozen=True):
    """The right to append to a conversation until the lease is released or its process ends."""

    conversation: ConversationId
    epoch: int
    """Increases with every lease of a conversation, even after its deletion, so that an old lease is never taken for a
    new one."""

    holder: str
    """The name of the holder, for people."""


class ConversationHeldError(CodedError):
    """Another holder has leased the conversation; `by` names the holder, `since` the time."""

    def __init__(self, conversation: ConversationId, by: str, since: str) -> None:
        super().__init__(
            "conversation_held",
            f"conversation {conversation} is held by {by} since {since}; close it there and try again, or end that "
            "process",
        )
        self.by = by
        self.since = since


class LeaseLostError(CodedError):
    """The lease has ended; its holder must stop appending."""

    def __init__(self, conversation: ConversationId, why: str) -> None:
        super().__init__(
            "lease_lost",
            f"the lease on conversation {conversation} has ended: {why}; reopen the conversation to continue from the "
            "stored entries",
        )


class Leases(Protocol):
    """Leases each conversation to one holder at a time.

    A lease ends with `release`, with the closing of the store that granted it, or with the death of the process. The
    next holder gets the conversation at once. Late appends of the previous holder are refused by their epoch.
    """

    async def acquire(self, conversation: ConversationId, holder: str) -> Lease:
        """Return the lease on the conversation.

        Raises `ConversationHeldError`, even within one process, or `ConversationUnknownError`.
        """
        ...

    async def release(self, lease: Lease) -> None:
        """End the lease; a lease that has already ended is ignored."""
        ...

    async def is_held(self, conversation: ConversationId) -> bool:
        """Whether the conversation is leased now; raises `ConversationUnknownError`."""
        ...
