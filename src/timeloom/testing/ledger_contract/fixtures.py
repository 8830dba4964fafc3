"""Scopes, reservations and limits for the checks of the ledger contract."""

from typing import Final

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import Measure
from timeloom.ports.ledger import BudgetCap, MaxAmounts, Reservation, scope
from timeloom.testing.store_contract.fixtures import CONVERSATION, Open, expect_error, scoped_store

TREE: Final = scope("tree", CONVERSATION)
USER: Final = scope("user", "tenant", "Ünï/code")


def make_reservation(
    key: str, most: MaxAmounts, *caps: BudgetCap, conversation: ConversationId = CONVERSATION, tokens: int | None = None
) -> Reservation:
    """Return a reservation charged to these scopes; without any, to a tree with that token limit."""
    return Reservation(
        key=key, conversation=conversation, most=most, caps=caps or (BudgetCap(scope=TREE, tokens=tokens),)
    )


def max_token_amounts(number: int | None) -> MaxAmounts:
    """Return the maximum cost of a call that uses only tokens."""
    return MaxAmounts(tokens=number)


def max_amounts_of(measure: Measure, number: int | None) -> MaxAmounts:
    """Return the maximum cost of a call that uses only that measure."""
    return msgspec.structs.replace(MaxAmounts(), **{measure: number})


def cap_on(measure: Measure, number: int) -> BudgetCap:
    """Return a tree whose only limit is that number for that measure."""
    return msgspec.structs.replace(BudgetCap(scope=TREE), **{measure: number})


__all__ = [
    "CONVERSATION",
    "TREE",
    "USER",
    "Open",
    "cap_on",
    "expect_error",
    "make_reservation",
    "max_amounts_of",
    "max_token_amounts",
    "scoped_store",
]
