"""Scopes, reservations and limits for the checks of the ledger contract."""

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
    """Return a reservation charged to these scopes; without any, to a tree with that token limit."""
    return Reservation(key=key, conversation=conversation, most=most, caps=caps or (Cap(scope=TREE, tokens=tokens),))


def tokens(number: int | None) -> Most:
    """Return the maximum cost of a call that uses only tokens."""
    return Most(tokens=number)


def taking(measure: Measure, number: int | None) -> Most:
    """Return the maximum cost of a call that uses only that measure."""
    return msgspec.structs.replace(Most(), **{measure: number})


def limiting(measure: Measure, number: int) -> Cap:
    """Return a tree whose only limit is that number for that measure."""
    return msgspec.structs.replace(Cap(scope=TREE), **{measure: number})


__all__ = ["CONVERSATION", "TREE", "USER", "Open", "call", "limiting", "opened", "refused", "taking", "tokens"]
