"""Makes reservations wait until the budgets of a store have room for them."""

import asyncio
from typing import Final, Protocol

from timeloom.core.ids import ConversationId
from timeloom.platform.tasks import acquire_or_release
from timeloom.ports.ledger import RESERVE_WAIT_S, Amounts, BudgetBusyError, BudgetGrant, Reservation
from timeloom.stores.followers import Followers

RETRY_INTERVAL_S: Final = 0.1
"""Seconds between two attempts of a waiting reservation, because other processes settle without notifying this one.

Each attempt is a transaction, so a smaller value loads the database."""

_ALL_WAITERS: Final = 0


class LedgerTables(Protocol):
    """The grants and settled amounts that a store keeps. Every method is one transaction."""

    async def grant(self, reservation: Reservation) -> BudgetGrant:
        """Return the grant, or raise `BudgetSpentError` or `BudgetBusyError` without waiting."""
        ...

    async def close_grant(self, reserved: BudgetGrant, actual: Amounts | None) -> None:
        """Remove the grant, if it is still open, and add the actual cost of the call; None adds nothing."""
        ...

    async def unsettled(self, conversation: ConversationId) -> tuple[BudgetGrant, ...]:
        """Return the open grants of the conversation, ordered by key."""
        ...

    async def spent(self, scope: str) -> Amounts:
        """Return the sum of the settled amounts of the scope."""
        ...


class StoreLedger:
    """A `Ledger` that waits, built on the `LedgerTables` of a store, which never wait."""

    def __init__(self, tables: LedgerTables) -> None:
        self._tables = tables
        self._waiters = Followers()

    async def reserve(self, reservation: Reservation, wait_s: float = RESERVE_WAIT_S) -> BudgetGrant:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        waiter = self._waiters.add(_ALL_WAITERS)
        try:
            while True:
                waiter.clear()
                try:
                    return await acquire_or_release(self._tables.grant(reservation), self.release)
                except BudgetBusyError:
                    remaining_s = deadline - loop.time()
                    if remaining_s <= 0:
                        raise
                await waiter.wait_at_most(min(RETRY_INTERVAL_S, remaining_s))
        finally:
            self._waiters.remove(_ALL_WAITERS, waiter)

    async def settle(self, reserved: BudgetGrant, actual: Amounts) -> None:
        await self._tables.close_grant(reserved, actual)
        self.wake_waiters()

    async def release(self, reserved: BudgetGrant) -> None:
        await self._tables.close_grant(reserved, None)
        self.wake_waiters()

    async def unsettled(self, conversation: ConversationId) -> tuple[BudgetGrant, ...]:
        return await self._tables.unsettled(conversation)

    async def spent(self, scope: str) -> Amounts:
        return await self._tables.spent(scope)

    def wake_waiters(self) -> None:
        """Make all waiting reservations try again now."""
        self._waiters.wake((_ALL_WAITERS,))
