"""Checks of versions, sizes and expiry of records."""

import asyncio

from timeloom.ports.records import ABSENT, EXPIRED_PER_WRITE, MAX_KEY_CHARS, MAX_VALUE_BYTES, RecordAddress, RecordQuery
from timeloom.testing.store_contract.fixtures import Open, expect_error, scoped_store

ADDRESS = RecordAddress(kind="note", tenant="t", project="p", user="ann", key="a")


async def a_record_is_created_once(open_store: Open) -> None:
    """A second create is a conflict that names the found version and changes nothing."""
    async with scoped_store(open_store) as store:
        assert await store.records.get(ADDRESS) is None
        version = await store.records.put(ADDRESS, b'{"n":1}', expected=ABSENT)
        assert version > 0
        await expect_error("record_conflict", store.records.put(ADDRESS, b'{"n":2}', expected=ABSENT))
        found = await store.records.get(ADDRESS)
        assert found
        assert (found.address, found.value, found.version, found.expires_us) == (ADDRESS, b'{"n":1}', version, None)


async def a_record_is_replaced_at_its_version_only(open_store: Open) -> None:
    """A replace at an old version, or of no record, changes nothing."""
    async with scoped_store(open_store) as store:
        await expect_error("record_conflict", store.records.put(ADDRESS, b"{}", expected=1))
        first = await store.records.put(ADDRESS, b'{"n":1}', expected=ABSENT)
        second = await store.records.put(ADDRESS, b'{"n":2}', expected=first)
        assert second > first
        await expect_error("record_conflict", store.records.put(ADDRESS, b'{"n":3}', expected=first))
        found = await store.records.get(ADDRESS)
        assert found and (found.value, found.version) == (b'{"n":2}', second)


async def a_record_is_deleted_at_its_version_only(open_store: Open) -> None:
    """Without an expected version, a delete tells whether there was a record."""
    async with scoped_store(open_store) as store:
        assert not await store.records.delete(ADDRESS, expected=None)
        await expect_error("record_conflict", store.records.delete(ADDRESS, expected=1))
        first = await store.records.put(ADDRESS, b"{}", expected=ABSENT)
        second = await store.records.put(ADDRESS, b"{}", expected=first)
        await expect_error("record_conflict", store.records.delete(ADDRESS, expected=first))
        assert await store.records.delete(ADDRESS, expected=second)
        assert await store.records.get(ADDRESS) is None
        await store.records.put(ADDRESS, b"{}", expected=ABSENT)
        assert await store.records.delete(ADDRESS, expected=None)


async def a_version_is_never_used_twice(open_store: Open) -> None:
    """A version from before a delete does not match the record that was created after it."""
    async with scoped_store(open_store) as store:
        first = await store.records.put(ADDRESS, b"{}", expected=ABSENT)
        await store.records.delete(ADDRESS, expected=first)
        second = await store.records.put(ADDRESS, b"{}", expected=ABSENT)
        await store.records.erase_user("t", "ann")
        third = await store.records.put(ADDRESS, b"{}", expected=ABSENT)
        assert first < second < third
        await expect_error("record_conflict", store.records.delete(ADDRESS, expected=first))


async def a_write_without_an_expected_version_always_succeeds(open_store: Open) -> None:
    """The last writer wins; caches need no more."""
    async with scoped_store(open_store) as store:
        first = await store.records.put(ADDRESS, b'{"n":1}', expected=None)
        second = await store.records.put(ADDRESS, b'{"n":2}', expected=None)
        assert first < second
        found = await store.records.get(ADDRESS)
        assert found and found.value == b'{"n":2}'


async def of_many_who_change_one_version_one_wins(open_store: Open) -> None:
    """Concurrent replaces at one version have one winner, whose value stays."""
    async with scoped_store(open_store) as store:
        version = await store.records.put(ADDRESS, b"{}", expected=ABSENT)
        attempts = [store.records.put(ADDRESS, b'{"by":%d}' % n, expected=version) for n in range(20)]
        results = await asyncio.gather(*attempts, return_exceptions=True)
        winners = [n for n, result in enumerate(results) if isinstance(result, int)]
        assert len(winners) == 1
        found = await store.records.get(ADDRESS)
        assert found and found.value == b'{"by":%d}' % winners[0]


async def the_revision_of_a_kind_grows_with_each_change(open_store: Open) -> None:
    """Reads and refused writes leave it, and other kinds have their own."""
    async with scoped_store(open_store) as store:
        assert await store.records.revision("note") == 0
        version = await store.records.put(ADDRESS, b"{}", expected=ABSENT)
        revisions = [await store.records.revision("note")]
        await store.records.get(ADDRESS)
        await expect_error("record_conflict", store.records.put(ADDRESS, b"{}", expected=ABSENT))
        assert not await store.records.delete(RecordAddress(kind="note", key="none"), expected=None)
        assert await store.records.revision("note") == revisions[0]
        version = await store.records.put(ADDRESS, b"{}", expected=version)
        revisions.append(await store.records.revision("note"))
        await store.records.delete(ADDRESS, expected=version)
        revisions.append(await store.records.revision("note"))
        await store.records.put(ADDRESS, b"{}", expected=ABSENT)
        await store.records.erase_user("t", "ann")
        revisions.append(await store.records.revision("note"))
        assert revisions == sorted(set(revisions))
        assert await store.records.revision("other") == 0


async def a_value_is_a_json_object_of_bounded_size(open_store: Open) -> None:
    """A value of the maximum size is stored, and one byte more is refused."""
    async with scoped_store(open_store) as store:
        largest = b'{"a":"%s"}' % (b"x" * (MAX_VALUE_BYTES - len(b'{"a":""}')))
        assert len(largest) == MAX_VALUE_BYTES
        await store.records.put(ADDRESS, largest, expected=ABSENT)
        found = await store.records.get(ADDRESS)
        assert found and found.value == largest
        for value in (largest[:-2] + b'x"}', b"", b"[]", b"7", b'{"a":', b'{"a":"\xff"}', b"{} {}"):
            await expect_error("record_refused", store.records.put(ADDRESS, value, expected=None))
        await expect_error("record_refused", store.records.put(ADDRESS, b"{}", expected=None, expires_us=0))
        found = await store.records.get(ADDRESS)
        assert found and found.value == largest


async def a_malformed_address_is_refused(open_store: Open) -> None:
    """Names have a bounded length and no NUL; kinds are words."""

    async def attempt(kind: str = "note", key: str = "a", tenant: str = "") -> None:
        await store.records.get(RecordAddress(kind=kind, key=key, tenant=tenant))

    async with scoped_store(open_store) as store:
        for kind in ("", "Note", "a b", "a/b", "a..b", "k" * 129, "note\n"):
            await expect_error("record_refused", attempt(kind=kind))
        for key in ("", "a\0b", "\ud800", "k" * (MAX_KEY_CHARS + 1)):
            await expect_error("record_refused", attempt(key=key))
        await expect_error("record_refused", attempt(tenant="t" * 257))
        await attempt(kind="bundle:my-shop.state", key="k" * MAX_KEY_CHARS, tenant="t" * 256)


async def a_record_is_absent_from_its_expiry_on(open_store: Open) -> None:
    """The time of the call decides. An expired record can be created again and not be replaced."""
    async with scoped_store(open_store) as store:
        version = await store.records.put(ADDRESS, b"{}", expected=ABSENT, expires_us=1000, now_us=10)
        assert await store.records.get(ADDRESS, now_us=999)
        assert (await store.records.list(RecordQuery(kind="note"), now_us=999)).records
        assert await store.records.get(ADDRESS, now_us=1000) is None
        assert not (await store.records.list(RecordQuery(kind="note"), now_us=1000)).records
        assert await store.records.get(ADDRESS)
        await expect_error("record_conflict", store.records.put(ADDRESS, b"{}", expected=version, now_us=1000))
        await expect_error("record_conflict", store.records.delete(ADDRESS, expected=version, now_us=1000))
        assert not await store.records.delete(ADDRESS, expected=None, now_us=1000)
        await expect_error("record_conflict", store.records.put(ADDRESS, b"{}", expected=ABSENT, now_us=999))
        await store.records.put(ADDRESS, b"{}", expected=ABSENT, now_us=1000)
        found = await store.records.get(ADDRESS, now_us=10**15)
        assert found and found.expires_us is None


async def writes_with_an_expiry_remove_expired_records(open_store: Open) -> None:
    """So a cache does not grow without bound. Records of other kinds, and those without an expiry, stay."""
    async with scoped_store(open_store) as store:
        for n in range(EXPIRED_PER_WRITE + 3):
            await store.records.put(RecordAddress(kind="cache", key=f"{n:03}"), b"{}", expected=ABSENT, expires_us=10)
        await store.records.put(RecordAddress(kind="cache", key="kept"), b"{}", expected=ABSENT)
        await store.records.put(RecordAddress(kind="other", key="x"), b"{}", expected=ABSENT, expires_us=10)
        await store.records.put(
            RecordAddress(kind="cache", key="new"), b"{}", expected=ABSENT, expires_us=99, now_us=50
        )
        left = (await store.records.list(RecordQuery(limit=500))).records
        names = [record.address.key for record in left]
        assert names == [f"{n:03}" for n in range(EXPIRED_PER_WRITE, EXPIRED_PER_WRITE + 3)] + ["kept", "new", "x"]
