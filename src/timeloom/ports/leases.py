"""The leases port: who may append to a conversation, one at a time."""

from typing import Final, Protocol

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId

HOLDER_CHARS: Final = 100
"""How much of a holder's name is kept. It is for people; longer ones would make every refusal a page."""


class Lease(msgspec.Struct, frozen=True):
    """The right to append to a conversation, until it is released or its process ends."""

    conversation: ConversationId
    epoch: int
    """Grows with every lease of a conversation, also over its deletion, so that none is taken for an earlier one."""

    holder: str
    """Who holds it, in words for people."""


class HeldError(CodedError):
    """Somebody else holds the conversation; `by` says who in words, `since` since when."""

    def __init__(self, conversation: ConversationId, by: str, since: str) -> None:
        super().__init__(
            "conversation_held",
            f"conversation {conversation} is held by {by} since {since}; close it there and try again: it is free as "
            "soon as that process lets go of it or ends",
        )
        self.by = by
        self.since = since


class LeaseLostError(CodedError):
    """The lease is not in force any more; who had it must not go on."""

    def __init__(self, conversation: ConversationId, why: str) -> None:
        super().__init__(
            "lease_lost",
            f"the lease on conversation {conversation} is over: {why}; open the conversation again to go on from what "
            "is stored",
        )


class Leases(Protocol):
    """Gives each conversation to one holder at a time.

    A lease ends by `release`, by closing the store that gave it, or by the death of the process: the next who asks
    gets the conversation at once, and what might still run of the last holder is refused by its epoch.
    """

    async def acquire(self, conversation: ConversationId, holder: str) -> Lease:
        """The lease on the conversation; raises `HeldError`, also within one process, or `ConversationUnknownError`."""
        ...

    async def release(self, lease: Lease) -> None:
        """Ends the lease; one that is over already stays as it is."""
        ...

    async def is_held(self, conversation: ConversationId) -> bool:
        """Whether somebody holds the conversation now; raises `ConversationUnknownError`."""
        ...
