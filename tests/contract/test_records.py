"""The records of every store of the package keep the contract that the package ships."""

import asyncio
from pathlib import Path

import pytest

from timeloom.ports.store import Store
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.overlay import OverlayStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.records_contract import DURABLE_RECORDS_CONTRACT, RECORDS_CONTRACT, Check


@pytest.mark.parametrize("check", RECORDS_CONTRACT, ids=lambda check: check.__name__)
def test_the_records_in_memory_keep_the_contract(check: Check) -> None:
    asyncio.run(check(MemoryStore.open))


@pytest.mark.parametrize("check", [*RECORDS_CONTRACT, *DURABLE_RECORDS_CONTRACT], ids=lambda check: check.__name__)
def test_the_records_of_the_sqlite_store_keep_the_contract(check: Check, tmp_path: Path) -> None:
    asyncio.run(check(lambda: SqliteStore.open(tmp_path)))


@pytest.mark.parametrize("check", RECORDS_CONTRACT, ids=lambda check: check.__name__)
def test_the_records_of_an_overlay_keep_the_contract(check: Check) -> None:
    async def open_overlay() -> Store:
        return OverlayStore(await MemoryStore.open())

    asyncio.run(check(open_overlay))
