"""Keeps records in the database of the journal, for all processes that have the data folder open."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from timeloom.ports.records import (
    RecordAddress,
    RecordPage,
    RecordQuery,
    StoredRecord,
    check_owner,
    check_value,
)
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.ledger import ReadTransaction
from timeloom.stores.sqlite.tables import records as rows

T = TypeVar("T")


class WriteRecord(Protocol):
    """Runs a change in a write transaction and returns its result once it is durable."""

    async def __call__(self, change: Callable[[Database], T]) -> T: ...


class SqliteRecords:
    """`Records` in two tables of the journal."""

    def __init__(self, write: WriteRecord, read: ReadTransaction) -> None:
        self._write = write
        self._read = read

    async def get(self, address: RecordAddress, *, now_us: int = 0) -> StoredRecord | None:
        return await self._read(lambda connection: rows.find(connection, address, now_us))

    async def put(
        self,
        address: RecordAddress,
        value: bytes,
        *,
        expected: int | None,
        expires_us: int | None = None,
        now_us: int = 0,
    ) -> int:
        check_value(value, expires_us)
        record = StoredRecord(address, bytes(value), 0, expires_us)
        return await self._write(lambda connection: rows.put(connection, record, expected, now_us))

    async def delete(self, address: RecordAddress, *, expected: int | None, now_us: int = 0) -> bool:
        return await self._write(lambda connection: rows.delete(connection, address, expected, now_us))

    async def list(self, query: RecordQuery, *, now_us: int = 0) -> RecordPage:
        return await self._read(lambda connection: rows.read_record_page(connection, query, now_us))

    async def revision(self, kind: str) -> int:
        return await self._read(lambda connection: rows.read_revision(connection, kind))

    async def erase_user(self, tenant: str, user: str, project: str | None = None) -> int:
        check_owner(tenant, user)
        query = RecordQuery(tenant=tenant, user=user, project=project)
        return await self._write(lambda connection: rows.erase(connection, query))

    async def erase_tenant(self, tenant: str) -> int:
        check_owner(tenant)
        return await self._write(lambda connection: rows.erase(connection, RecordQuery(tenant=tenant)))
