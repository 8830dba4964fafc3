"""Records that are read from a base store and changed in memory only."""

from collections.abc import Callable

from msgspec.structs import replace

from timeloom.ports.records import MAX_PAGE, RecordAddress, RecordPage, RecordQuery, Records, StoredRecord, check_owner
from timeloom.stores.in_memory.records import MemoryRecords


class OverlayRecords(MemoryRecords):
    """`Records` in memory on top of others, which it reads and never writes to.

    A record is copied into memory before the first call that concerns it. Later changes of the base are not seen.
    """

    def __init__(self, base: Records, check_open: Callable[[], None]) -> None:
        super().__init__(check_open)
        self._base = base
        self._copied: set[RecordAddress] = set()
        """Addresses whose rows in memory count, also if they were deleted there."""

    async def get(self, address: RecordAddress, *, now_us: int = 0) -> StoredRecord | None:
        await self._copy_one(address)
        return await super().get(address, now_us=now_us)

    async def put(
        self,
        address: RecordAddress,
        value: bytes,
        *,
        expected: int | None,
        expires_us: int | None = None,
        now_us: int = 0,
    ) -> int:
        await self._copy_one(address)
        return await super().put(address, value, expected=expected, expires_us=expires_us, now_us=now_us)

    async def delete(self, address: RecordAddress, *, expected: int | None, now_us: int = 0) -> bool:
        await self._copy_one(address)
        return await super().delete(address, expected=expected, now_us=now_us)

    async def list(self, query: RecordQuery, *, now_us: int = 0) -> RecordPage:
        await self._copy_all(query)
        return await super().list(query, now_us=now_us)

    async def revision(self, kind: str) -> int:
        return max(await self._base.revision(kind), await super().revision(kind))

    async def erase_user(self, tenant: str, user: str, project: str | None = None) -> int:
        check_owner(tenant, user)
        await self._copy_all(RecordQuery(tenant=tenant, user=user, project=project))
        return await super().erase_user(tenant, user, project)

    async def erase_tenant(self, tenant: str) -> int:
        check_owner(tenant)
        await self._copy_all(RecordQuery(tenant=tenant))
        return await super().erase_tenant(tenant)

    async def _copy_one(self, address: RecordAddress) -> None:
        if address not in self._copied:
            found = await self._base.get(address)
            revision = await self._base.revision(address.kind)
            self._copy(address, found, revision)

    async def _copy_all(self, query: RecordQuery) -> None:
        query = replace(query, limit=MAX_PAGE, cursor="")
        while True:
            page = await self._base.list(query)
            for record in page.records:
                self._copy(record.address, record, await self._base.revision(record.address.kind))
            if not page.cursor:
                return
            query = replace(query, cursor=page.cursor)

    def _copy(self, address: RecordAddress, found: StoredRecord | None, revision: int) -> None:
        if address in self._copied:
            return
        self._copied.add(address)
        if found:
            self._rows[address] = found
        # Versions that are given here must be higher than those of the base.
        self._revisions[address.kind] = max(revision, self._revisions.get(address.kind, 0))
