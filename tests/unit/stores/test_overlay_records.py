"""Records of an overlay: it reads those of its base and changes none of them."""

import asyncio

from msgspec.structs import replace

from timeloom.ports.records import ABSENT, RecordAddress, RecordPage, RecordQuery
from timeloom.ports.store import Store
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.overlay import OverlayStore

ADDRESSES = [
    RecordAddress(kind="note", tenant="t", user=user, key=f"{n:03}") for user in ("ann", "bob") for n in range(3)
]


async def filled_base() -> Store:
    base = await MemoryStore.open()
    for address in ADDRESSES:
        await base.records.put(address, b'{"by":"base"}', expected=ABSENT)
    return base


def test_changes_stay_in_the_overlay() -> None:
    async def check() -> None:
        base = await filled_base()
        before = await base.records.list(RecordQuery())
        overlay = OverlayStore(base)
        assert await overlay.records.list(RecordQuery()) == before
        version = await overlay.records.put(ADDRESSES[0], b"{}", expected=before.records[0].version)
        assert version > await base.records.revision("note")
        assert await overlay.records.delete(ADDRESSES[1], expected=before.records[1].version)
        assert await overlay.records.get(ADDRESSES[1]) is None
        assert await overlay.records.erase_user("t", "bob") == 3
        found = await overlay.records.list(RecordQuery())
        assert [record.address for record in found.records] == [ADDRESSES[0], ADDRESSES[2]]
        assert await base.records.list(RecordQuery()) == before

    asyncio.run(check())


def test_records_that_were_never_read_are_erased_and_listed_too() -> None:
    async def check() -> None:
        base = await filled_base()
        assert await OverlayStore(base).records.erase_tenant("t") == 6
        overlay, query, found = OverlayStore(base), RecordQuery(kind="note", limit=4), RecordPage(())
        found = await overlay.records.list(query)
        assert len(found.records) == 4
        assert len((await overlay.records.list(replace(query, cursor=found.cursor))).records) == 2
        assert await overlay.records.revision("note") == 6

    asyncio.run(check())
