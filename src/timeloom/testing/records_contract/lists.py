"""Checks of lists of records."""

from msgspec.structs import replace

from timeloom.ports.records import ABSENT, MAX_PAGE, RecordAddress, RecordQuery
from timeloom.ports.store import Store
from timeloom.testing.store_contract.fixtures import Open, expect_error, scoped_store


async def records_are_listed_by_kind_owner_and_key(open_store: Open) -> None:
    """None matches every name, and an empty text only records without one."""
    async with scoped_store(open_store) as store:
        addresses = [
            RecordAddress(kind=kind, tenant=tenant, project=project, user=user, key=key)
            for kind in ("a", "b")
            for tenant, project, user in (("", "", ""), ("t", "", ""), ("t", "p", ""), ("t", "p", "u"), ("u", "p", "u"))
            for key in ("é", "A", "a", "\U0001f600", "\uffff")
        ]
        for address in reversed(addresses):
            await store.records.put(address, b"{}", expected=ABSENT)
        addresses.sort(key=lambda address: address.sort_key)
        for query in (
            RecordQuery(),
            RecordQuery(kind="a"),
            RecordQuery(kind="none"),
            RecordQuery(kind="b", tenant="t"),
            RecordQuery(kind="b", tenant=""),
            RecordQuery(tenant="t", user=""),
            RecordQuery(kind="a", user="u"),
            RecordQuery(kind="a", tenant="t", project="p", user="u"),
        ):
            expected = [address for address in addresses if query.matches(address)]
            for limit in (1, 3, 500):
                assert await _list_all(store, replace(query, limit=limit)) == expected


async def a_prefix_selects_keys(open_store: Open) -> None:
    """Every character of a prefix stands for itself."""
    async with scoped_store(open_store) as store:
        keys = ["a", "a%", "a_b", "a/1", "a/2", "a0", "b", "\ud7ff", "\ud7ffx", "\ue000", "\U0010ffff", "\U0010ffffz"]
        for key in keys:
            await store.records.put(RecordAddress(kind="k", key=key), b"{}", expected=ABSENT)
        for prefix in ("", "a", "a/", "a%", "a_", "A", "\ud7ff", "\U0010ffff", "b\U0010ffff"):
            for limit in (1, 100):
                found = await _list_all(store, RecordQuery(kind="k", tenant="", prefix=prefix, limit=limit))
                assert [address.key for address in found] == sorted(key for key in keys if key.startswith(prefix))


async def paging_shows_each_record_once_while_others_change(open_store: Open) -> None:
    """Records that come and go during the paging change nothing for those that stay."""
    async with scoped_store(open_store) as store:
        for n in range(10):
            await store.records.put(RecordAddress(kind="k", key=f"{n}"), b"{}", expected=ABSENT)
        page = await store.records.list(RecordQuery(kind="k", limit=4))
        assert len(page.records) == 4 and page.cursor
        await store.records.delete(RecordAddress(kind="k", key="3"), expected=None)
        await store.records.put(RecordAddress(kind="k", key="00"), b"{}", expected=ABSENT)
        await store.records.put(RecordAddress(kind="k", key="5"), b'{"n":1}', expected=None)
        rest = await store.records.list(RecordQuery(kind="k", limit=6, cursor=page.cursor))
        assert [record.address.key for record in rest.records] == ["4", "5", "6", "7", "8", "9"]
        assert not rest.cursor
        assert len((await store.records.list(RecordQuery(kind="k", limit=0))).records) == 1
        assert RecordQuery(limit=MAX_PAGE + 1).size == MAX_PAGE


async def a_list_refuses_a_cursor_that_it_did_not_return(open_store: Open) -> None:
    """Also a cursor that is hexadecimal, and one of another list."""
    async with scoped_store(open_store) as store:
        for cursor in ("x", "00", b'["a","b"]'.hex(), "é"):
            await expect_error("cursor_malformed", store.records.list(RecordQuery(kind="k", cursor=cursor)))


async def _list_all(store: Store, query: RecordQuery) -> list[RecordAddress]:
    found: list[RecordAddress] = []
    while True:
        page = await store.records.list(query)
        found += [record.address for record in page.records]
        if not page.cursor:
            return found
        query = replace(query, cursor=page.cursor)
