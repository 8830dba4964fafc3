"""Checks of the owners of records and of erasing them."""

from timeloom.ports.records import ABSENT, RecordAddress, RecordQuery
from timeloom.ports.store import Store
from timeloom.testing.store_contract.fixtures import Open, expect_error, scoped_store

Owner = tuple[str, str, str]

OWNERS: tuple[Owner, ...] = (
    ("", "", ""),
    ("t", "", ""),
    ("t", "p", ""),
    ("t", "", "ann"),
    ("t", "p", "ann"),
    ("t", "q", "ann"),
    ("t", "p", "bob"),
    ("T", "p", "ann"),
    ("u", "p", "ann"),
)


async def records_of_different_owners_are_separate(open_store: Open) -> None:
    """The same key of another tenant, project or user is another record; no owner means the whole server."""
    async with scoped_store(open_store) as store:
        await _fill(store)
        for n, owner in enumerate(OWNERS):
            found = await store.records.get(_address(owner, "a"))
            assert found and found.value == b'{"n":%d}' % n
        await store.records.delete(_address(("t", "p", "ann"), "a"), expected=None)
        assert len(await _owners(store)) == len(OWNERS)


async def the_records_of_a_user_are_erased(open_store: Open) -> None:
    """In one project, or in all and outside of projects; nobody else's records are touched."""
    async with scoped_store(open_store) as store:
        await _fill(store)
        assert await store.records.erase_user("t", "ann", "q") == 2
        assert await _owners(store) == set(OWNERS) - {("t", "q", "ann")}
        assert await store.records.erase_user("t", "ann") == 4
        gone = {("t", "q", "ann"), ("t", "p", "ann"), ("t", "", "ann")}
        assert await _owners(store) == set(OWNERS) - gone
        assert await store.records.erase_user("t", "ann") == 0
        await store.scrub()
        assert await _owners(store) == set(OWNERS) - gone


async def the_records_of_a_tenant_are_erased(open_store: Open) -> None:
    """Those of its users and its own; those of the server and of other tenants stay."""
    async with scoped_store(open_store) as store:
        await _fill(store)
        assert await store.records.erase_tenant("t") == 12
        assert await _owners(store) == {owner for owner in OWNERS if owner[0] != "t"}


async def erasing_needs_a_name(open_store: Open) -> None:
    """An empty name never erases what belongs to everyone."""
    async with scoped_store(open_store) as store:
        await _fill(store)
        await expect_error("record_refused", store.records.erase_user("t", ""))
        await expect_error("record_refused", store.records.erase_user("", "ann"))
        await expect_error("record_refused", store.records.erase_tenant(""))
        assert await _owners(store) == set(OWNERS)


async def _fill(store: Store) -> None:
    for n, owner in enumerate(OWNERS):
        await store.records.put(_address(owner, "a"), b'{"n":%d}' % n, expected=ABSENT)
        await store.records.put(_address(owner, "b"), b"{}", expected=ABSENT, expires_us=1)


def _address(owner: Owner, key: str) -> RecordAddress:
    tenant, project, user = owner
    return RecordAddress(kind="note", tenant=tenant, project=project, user=user, key=key)


async def _owners(store: Store) -> set[Owner]:
    page = await store.records.list(RecordQuery(limit=500))
    return {(record.address.tenant, record.address.project, record.address.user) for record in page.records}
