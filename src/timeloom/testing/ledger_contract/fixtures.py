"""What the checks of the ledger are built from: scopes, reservations, an error that must come."""

from typing import Final

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import Measure
from timeloom.ports.ledger import Cap, Most, Reservation, scope
from timeloom.testing.store_contract.fixtures import CONVERSATION, Open, opened, refused

TREE: Final = scope("tree", CONVERSATION)
USER: Final = scope("user", "tenant", "Ünï/code")


def call(
    key: str, most: Most, *caps: Cap, conversation: ConversationId = CONVERSATION, tokens: int | None = None
) -> Reservation:
    """A call of that cost, paid by these scopes; without any, by a tree that may spend so many tokens."""
    return Reservation(key=key, conversation=conversation, most=most, caps=caps or (Cap(scope=TREE, tokens=tokens),))


def tokens(number: int | None) -> Most:
    """A call that takes tokens and nothing else."""
    return Most(tokens=number)


def taking(measure: Measure, number: int | None) -> Most:
    """A call that takes so much of that measure and nothing else."""
    return msgspec.structs.replace(Most(), **{measure: number})


def limiting(measure: Measure, number: int) -> Cap:
    """A tree that may spend so much of that measure, and of all others what it wants."""
    return msgspec.structs.replace(Cap(scope=TREE), **{measure: number})


__all__ = ["CONVERSATION", "TREE", "USER", "Open", "call", "limiting", "opened", "refused", "taking", "tokens"]
