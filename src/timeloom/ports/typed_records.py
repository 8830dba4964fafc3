"""Reads and writes records of one kind and owner as msgspec Structs."""

from collections.abc import AsyncIterator, Callable
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from timeloom.core.codes import CodedError
from timeloom.ports.clock import Clock, SystemClock
from timeloom.ports.records import (
    ABSENT,
    RecordAddress,
    RecordConflictError,
    RecordQuery,
    Records,
    RecordScope,
    StoredRecord,
    check_kind,
)

UPDATE_ATTEMPTS: Final = 100
"""How often `update` tries again after another writer; only a very busy record needs more than a few."""

T = TypeVar("T", bound=msgspec.Struct)


class TypedRecord(NamedTuple, Generic[T]):
    """A record with its decoded value."""

    key: str
    value: T
    version: int
    """Pass it to `replace` or `delete` to change exactly this value."""


class TypedRecordPage(NamedTuple, Generic[T]):
    """One page of records, by key."""

    records: tuple[TypedRecord[T], ...]
    cursor: str
    """Pass it to get the next page; empty on the last one."""


class TypedRecords(Generic[T]):
    """The records of one kind that one owner has: a user, a project, a tenant or the whole server.

    Records of other owners cannot be reached through it.
    """

    def __init__(
        self,
        records: Records,
        kind: str,
        value_type: type[T],
        scope: RecordScope | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Bind the records of a store to a kind, the type of its values and an owner; no scope is the whole server.

        The clock decides only about the expiry of records.
        """
        check_kind(kind)
        self._records = records
        self._kind = kind
        self._decoder = msgspec.json.Decoder(value_type)
        self._scope = scope or RecordScope()
        self._clock = clock or SystemClock()

    async def get(self, key: str) -> TypedRecord[T] | None:
        """Return the record; None if there is none."""
        found = await self._records.get(self._address(key), now_us=self._clock.epoch_us())
        return self._decode(found) if found else None

    async def create(self, key: str, value: T, *, expires_in_s: float | None = None) -> int:
        """Store a new record and return its version; raises `RecordConflictError` if there is one."""
        return await self._put(key, value, ABSENT, expires_in_s)

    async def replace(self, key: str, value: T, version: int, *, expires_in_s: float | None = None) -> int:
        """Replace exactly this version and return the new one; raises `RecordConflictError` otherwise."""
        return await self._put(key, value, version, expires_in_s)

    async def put(self, key: str, value: T, *, expires_in_s: float | None = None) -> int:
        """Store the value regardless of an earlier one, and return its version."""
        return await self._put(key, value, None, expires_in_s)

    async def update(self, key: str, change: Callable[[T | None], T], *, expires_in_s: float | None = None) -> T:
        """Store what `change` makes of the current value, and return it. It is called again after another writer."""
        for attempt in range(UPDATE_ATTEMPTS):
            found = await self.get(key)
            value = change(found.value if found else None)
            try:
                await self._put(key, value, found.version if found else ABSENT, expires_in_s)
            except RecordConflictError:
                if attempt == UPDATE_ATTEMPTS - 1:
                    raise
            else:
                return value
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def delete(self, key: str, version: int | None = None) -> bool:
        """Delete the record, or only this version of it, and return whether there was one."""
        return await self._records.delete(self._address(key), expected=version, now_us=self._clock.epoch_us())

    async def list(self, prefix: str = "", *, limit: int = 50, cursor: str = "") -> TypedRecordPage[T]:
        """Return one page of the records whose keys begin with `prefix`, by key."""
        query = RecordQuery(
            kind=self._kind,
            tenant=self._scope.tenant,
            project=self._scope.project,
            user=self._scope.user,
            prefix=prefix,
            limit=limit,
            cursor=cursor,
        )
        page = await self._records.list(query, now_us=self._clock.epoch_us())
        return TypedRecordPage(tuple(map(self._decode, page.records)), page.cursor)

    async def iterate(self, prefix: str = "") -> AsyncIterator[TypedRecord[T]]:
        """Yield all records whose keys begin with `prefix`, page by page."""
        cursor = ""
        while True:
            page = await self.list(prefix, limit=500, cursor=cursor)
            for record in page.records:
                yield record
            cursor = page.cursor
            if not cursor:
                return

    async def _put(self, key: str, value: T, expected: int | None, expires_in_s: float | None) -> int:
        now_us = self._clock.epoch_us()
        expires_us = None if expires_in_s is None else now_us + max(1, int(expires_in_s * 1_000_000))
        data = msgspec.json.encode(value)
        return await self._records.put(
            self._address(key), data, expected=expected, expires_us=expires_us, now_us=now_us
        )

    def _address(self, key: str) -> RecordAddress:
        scope = self._scope
        return RecordAddress(kind=self._kind, key=key, tenant=scope.tenant, project=scope.project, user=scope.user)

    def _decode(self, found: StoredRecord) -> TypedRecord[T]:
        try:
            value = self._decoder.decode(found.value)
        except msgspec.DecodeError as error:
            raise CodedError(
                "record_unreadable",
                f"{found.address.describe()} does not have the expected type: {error}; give new fields defaults, "
                "or delete the record",
            ) from error
        return TypedRecord(found.address.key, value, found.version)


def bundle_records(
    records: Records,
    bundle: str,
    value_type: type[T],
    scope: RecordScope,
    clock: Clock | None = None,
    *,
    name: str = "",
) -> TypedRecords[T]:
    """Return the state of a bundle for that owner; `name` separates several types of state of one bundle."""
    kind = f"bundle:{bundle}"
    return TypedRecords(records, f"{kind}.{name}" if name else kind, value_type, scope, clock)
