"""Keeps the grants and settled amounts of the SQLite store in the database of the journal."""

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
    """Runs a change for a conversation in a write transaction and returns its result once it is durable."""

    async def __call__(self, conversation: ConversationId, change: Callable[[Database], T]) -> T: ...


class Look(Protocol):
    """Runs a query in a read transaction and returns its result."""

    async def __call__(self, look: Callable[[Database], T]) -> T: ...


class SqliteBooks:
    """`LedgerTables` shared by all processes that have the data folder open."""

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
