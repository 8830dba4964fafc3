"""The books of the embedded store: its ledger's grants and settled amounts, in the journal's database."""

from collections.abc import Callable
from itertools import count
from typing import Protocol, TypeVar

from timeloom.core.ids import ConversationId
from timeloom.ports.ledger import Amounts, Reservation, Reserved
from timeloom.stores.process_locks import Holders
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.tables import ledger_sql

T = TypeVar("T")


class Change(Protocol):
    """Carries out a change for a conversation; what it returned is durable."""

    async def __call__(self, conversation: ConversationId, change: Callable[[Database], T]) -> T: ...


class Look(Protocol):
    """Reads something at one moment."""

    async def __call__(self, look: Callable[[Database], T]) -> T: ...


class SqliteBooks:
    """`Books` that all processes share which have the data folder open."""

    def __init__(self, holders: Holders, change: Change, look: Look) -> None:
        self._holders = holders
        self._change = change
        self._look = look
        self._numbers = count(1)

    async def grant(self, reservation: Reservation) -> Reserved:
        def change(connection: Database) -> Reserved:
            name = f"{self._holders.own()}.{next(self._numbers)}"
            return ledger_sql.grant(connection, reservation, name, self._holders.is_alive)

        return await self._change(reservation.conversation, change)

    async def close_grant(self, reserved: Reserved, actual: Amounts | None) -> None:
        await self._change(
            reserved.conversation, lambda connection: ledger_sql.close_grant(connection, reserved, actual)
        )

    async def unsettled(self, conversation: ConversationId) -> tuple[Reserved, ...]:
        return await self._look(lambda connection: ledger_sql.read_unsettled(connection, conversation))

    async def spent(self, scope: str) -> Amounts:
        return await self._look(lambda connection: ledger_sql.read_spent(connection, scope))
