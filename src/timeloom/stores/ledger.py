"""The ledger of a store: waits for room, over books that grant or refuse at once."""

import asyncio
from typing import Final, Protocol

from timeloom.core.ids import ConversationId
from timeloom.ports.ledger import RESERVE_WAIT_S, Amounts, BudgetBusyError, Reservation, Reserved
from timeloom.stores.cancellation import taken
from timeloom.stores.followers import Followers

LOOK_S: Final = 0.1
"""How often one who waits looks again unasked: other processes settle without a word. A look is a transaction."""

_EVERYBODY: Final = 0


class Books(Protocol):
    """What a store keeps of grants and settled amounts; every method is one transaction."""

    async def grant(self, reservation: Reservation) -> Reserved:
        """The grant, or at once `BudgetSpentError` or `BudgetBusyError`."""
        ...

    async def close_grant(self, reserved: Reserved, actual: Amounts | None) -> None:
        """Removes the grant, if it still stands, and adds what the call did cost."""
        ...

    async def unsettled(self, conversation: ConversationId) -> tuple[Reserved, ...]:
        """The conversation's grants, by key."""
        ...

    async def spent(self, scope: str) -> Amounts:
        """What was settled in that scope."""
        ...


class StoreLedger:
    """A `Ledger` over the books of a store."""

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
        """Lets those who wait look again."""
        self._waiting.wake((_EVERYBODY,))
