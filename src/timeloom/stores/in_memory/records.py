"""Keeps the records of the in-memory store."""

from collections.abc import Callable

from timeloom.ports.records import (
    EXPIRED_PER_WRITE,
    RecordAddress,
    RecordConflictError,
    RecordPage,
    RecordQuery,
    StoredRecord,
    check_owner,
    check_value,
    make_record_cursor,
    parse_record_cursor,
)


class MemoryRecords:
    """`Records` for one event loop."""

    def __init__(self, check_open: Callable[[], None]) -> None:
        self._check_open = check_open
        self._rows: dict[RecordAddress, StoredRecord] = {}
        self._revisions: dict[str, int] = {}

    async def get(self, address: RecordAddress, *, now_us: int = 0) -> StoredRecord | None:
        self._check_open()
        return self._find(address, now_us)

    async def put(
        self,
        address: RecordAddress,
        value: bytes,
        *,
        expected: int | None,
        expires_us: int | None = None,
        now_us: int = 0,
    ) -> int:
        self._check_open()
        check_value(value, expires_us)
        self._check_version(address, expected, now_us)
        version = self._next_revision(address.kind)
        self._rows[address] = StoredRecord(address, bytes(value), version, expires_us)
        if expires_us is not None:
            self._remove_expired(address.kind, now_us)
        return version

    async def delete(self, address: RecordAddress, *, expected: int | None, now_us: int = 0) -> bool:
        self._check_open()
        self._check_version(address, expected, now_us)
        if self._find(address, now_us) is None:
            return False
        del self._rows[address]
        self._next_revision(address.kind)
        return True

    async def list(self, query: RecordQuery, *, now_us: int = 0) -> RecordPage:
        self._check_open()
        after = parse_record_cursor(query.cursor) if query.cursor else None
        found = [row for row in self._rows.values() if query.matches(row.address) and not _is_expired(row, now_us)]
        found = [row for row in found if after is None or row.address.sort_key > after]
        found.sort(key=lambda row: row.address.sort_key)
        size = query.size
        cursor = make_record_cursor(found[size - 1].address) if len(found) > size else ""
        return RecordPage(tuple(found[:size]), cursor)

    async def revision(self, kind: str) -> int:
        self._check_open()
        return self._revisions.get(kind, 0)

    async def erase_user(self, tenant: str, user: str, project: str | None = None) -> int:
        check_owner(tenant, user)
        return self._erase(RecordQuery(tenant=tenant, user=user, project=project))

    async def erase_tenant(self, tenant: str) -> int:
        check_owner(tenant)
        return self._erase(RecordQuery(tenant=tenant))

    def count(self) -> int:
        """Return the number of stored records, expired ones included."""
        return len(self._rows)

    def _erase(self, query: RecordQuery) -> int:
        self._check_open()
        erased = [address for address in self._rows if query.matches(address)]
        for address in erased:
            del self._rows[address]
        for kind in {address.kind for address in erased}:
            self._next_revision(kind)
        return len(erased)

    def _find(self, address: RecordAddress, now_us: int) -> StoredRecord | None:
        row = self._rows.get(address)
        return None if row is None or _is_expired(row, now_us) else row

    def _check_version(self, address: RecordAddress, expected: int | None, now_us: int) -> None:
        row = self._find(address, now_us)
        found = row.version if row else 0
        if expected is not None and expected != found:
            raise RecordConflictError(address, expected, found)

    def _next_revision(self, kind: str) -> int:
        self._revisions[kind] = self._revisions.get(kind, 0) + 1
        return self._revisions[kind]

    def _remove_expired(self, kind: str, now_us: int) -> None:
        expired = [row for row in self._rows.values() if row.address.kind == kind and _is_expired(row, now_us)]
        expired.sort(key=lambda row: (row.expires_us or 0, row.version))
        for row in expired[:EXPIRED_PER_WRITE]:
            del self._rows[row.address]


def _is_expired(row: StoredRecord, now_us: int) -> bool:
    return row.expires_us is not None and row.expires_us <= now_us
