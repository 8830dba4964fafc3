"""Keeps the grants and settled amounts of the SQLite store in the database of the journal."""

from collections.abc import Callable
from itertools import count
from typing import Protocol, TypeVar

from timeloom.core.ids import ConversationId
from timeloom.ports.ledger import Amounts, BudgetGrant, Reservation
from timeloom.stores.process_locks import ProcessLocks
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.tables import ledger_sql

T = TypeVar("T")


class WriteTransaction(Protocol):
    """Runs a change for a conversation in a write transaction and returns its result once it is durable."""

    async def __call__(self, conversation: ConversationId, change: Callable[[Database], T]) -> T: ...


class ReadTransaction(Protocol):
    """Runs a query in a read transaction and returns its result."""

    async def __call__(self, query: Callable[[Database], T]) -> T: ...


class SqliteLedgerTables:
    """`LedgerTables` shared by all processes that have the data folder open."""

    def __init__(self, locks: ProcessLocks, write: WriteTransaction, read: ReadTransaction) -> None:
        self._locks = locks
        self._write = write
        self._read = read
        self._grant_numbers = count(1)

    async def grant(self, reservation: Reservation) -> BudgetGrant:
        def change(connection: Database) -> BudgetGrant:
            name = f"{self._locks.claim_name()}.{next(self._grant_numbers)}"
            return ledger_sql.insert_grant(connection, reservation, name, self._locks.is_alive)

        return await self._write(reservation.conversation, change)

    async def close_grant(self, reserved: BudgetGrant, actual: Amounts | None) -> None:
        await self._write(
            reserved.conversation, lambda connection: ledger_sql.close_grant(connection, reserved, actual)
        )

    async def unsettled(self, conversation: ConversationId) -> tuple[BudgetGrant, ...]:
        return await self._read(lambda connection: ledger_sql.read_unsettled(connection, conversation))

    async def spent(self, scope: str) -> Amounts:
        return await self._read(lambda connection: ledger_sql.read_spent(connection, scope))
