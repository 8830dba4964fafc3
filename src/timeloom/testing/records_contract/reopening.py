"""Checks of records after closing, after opening again and in two stores of one folder."""

import asyncio

import msgspec

from timeloom.ports.clock import SystemClock
from timeloom.ports.records import ABSENT, RecordAddress, RecordQuery, RecordScope
from timeloom.ports.typed_records import TypedRecords
from timeloom.testing.store_contract.fixtures import Open, expect_error, scoped_store

ADDRESS = RecordAddress(kind="note", tenant="t", project="p", user="ann", key="a")


class ContractCount(msgspec.Struct, frozen=True):
    """A number that several stores increase."""

    n: int = 0


async def a_closed_store_has_no_records(open_store: Open) -> None:
    """Every operation raises `store_closed`."""
    store = await open_store()
    await store.records.put(ADDRESS, b"{}", expected=ABSENT)
    await store.close()
    await expect_error("store_closed", store.records.get(ADDRESS))
    await expect_error("store_closed", store.records.put(ADDRESS, b"{}", expected=None))
    await expect_error("store_closed", store.records.delete(ADDRESS, expected=None))
    await expect_error("store_closed", store.records.list(RecordQuery()))
    await expect_error("store_closed", store.records.revision("note"))
    await expect_error("store_closed", store.records.erase_user("t", "ann"))
    await expect_error("store_closed", store.records.erase_tenant("t"))


async def records_are_there_after_opening_again(open_store: Open) -> None:
    """With their versions, their expiry and the revision of their kind."""
    async with scoped_store(open_store) as store:
        await store.records.put(ADDRESS, b'{"n":1}', expected=ABSENT, expires_us=1000)
        await store.records.put(RecordAddress(kind="note", key="gone"), b"{}", expected=ABSENT)
        await store.records.delete(RecordAddress(kind="note", key="gone"), expected=None)
        before = await store.records.get(ADDRESS), await store.records.revision("note")
    async with scoped_store(open_store) as store:
        assert (await store.records.get(ADDRESS), await store.records.revision("note")) == before
        assert (await store.verify()).findings == ()
        assert (await store.verify()).records == 1


async def two_stores_of_one_folder_share_records(open_store: Open) -> None:
    """A write of one is seen by the other at once."""
    async with scoped_store(open_store) as left, scoped_store(open_store) as right:
        version = await left.records.put(ADDRESS, b"{}", expected=ABSENT)
        found = await right.records.get(ADDRESS)
        assert found and found.version == version
        await right.records.put(ADDRESS, b'{"n":1}', expected=version)
        await expect_error("record_conflict", left.records.put(ADDRESS, b"{}", expected=version))
        assert await left.records.revision("note") == await right.records.revision("note")


async def of_many_stores_that_count_none_is_lost(open_store: Open) -> None:
    """Concurrent updates of one record by several stores all count."""
    async with scoped_store(open_store) as left, scoped_store(open_store) as right:
        counts = [
            TypedRecords(store.records, "count", ContractCount, RecordScope("t"), SystemClock())
            for store in (left, right)
        ]
        updates = [records.update("n", _next_count) for records in counts for _ in range(10)]
        await asyncio.gather(*updates)
        found = await counts[0].get("n")
        assert found and found.value.n == 20


def _next_count(before: ContractCount | None) -> ContractCount:
    return ContractCount((before.n if before else 0) + 1)
