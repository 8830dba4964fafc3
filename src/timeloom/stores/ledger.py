"""Makes reservations wait until the budgets of a store have room for them."""

import asyncio
from typing import Final, Protocol

from timeloom.core.ids import ConversationId
from timeloom.ports.ledger import RESERVE_WAIT_S, Amounts, BudgetBusyError, Reservation, Reserved
from timeloom.stores.cancellation import taken
from timeloom.stores.followers import Followers

LOOK_S: Final = 0.1
"""Seconds between two attempts of a waiting reservation, because other processes settle without notifying this one.

Each attempt is a transaction, so a smaller value loads the database."""

_EVERYBODY: Final = 0


class Books(Protocol):
    """The grants and settled amounts that a store keeps. Every method is one transaction."""

    async def grant(self, reservation: Reservation) -> Reserved:
        """Return the grant, or raise `BudgetSpentError` or `BudgetBusyError` without waiting."""
        ...

    async def close_grant(self, reserved: Reserved, actual: Amounts | None) -> None:
        """Remove the grant, if it is still open, and add the actual cost of the call; None adds nothing."""
        ...

    async def unsettled(self, conversation: ConversationId) -> tuple[Reserved, ...]:
        """Return the open grants of the conversation, ordered by key."""
        ...

    async def spent(self, scope: str) -> Amounts:
        """Return the sum of the settled amounts of the scope."""
        ...


class StoreLedger:
    """A `Ledger` that waits, built on the `LedgerTables` of a store, which never wait."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._waiting = Followers()

    async def reserve(self, reservation: Reservation, wait_s: float = RESERVE_WAIT_S) -> Reserved:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        waiter = self._waiting.add(_EVERYBODY)
        try:
            while True:
                waiter.forget()
                try:
                    return await taken(self._books.grant(reservation), self.release)
                except BudgetBusyError:
                    left = deadline - loop.time()
                    if left <= 0:
                        raise
                await waiter.wait_at_most(min(LOOK_S, left))
        finally:
            self._waiting.remove(_EVERYBODY, waiter)

    async def settle(self, reserved: Reserved, actual: Amounts) -> None:
        await self._books.close_grant(reserved, actual)
        self.wake()

    async def release(self, reserved: Reserved) -> None:
        await self._books.close_grant(reserved, None)
        self.wake()

    async def unsettled(self, conversation: ConversationId) -> tuple[Reserved, ...]:
        return await self._books.unsettled(conversation)

    async def spent(self, scope: str) -> Amounts:
        return await self._books.spent(scope)

    def wake(self) -> None:
        """Make all waiting reservations try again now."""
        self._waiting.wake((_EVERYBODY,))
