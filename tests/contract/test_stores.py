"""Every store of the package keeps the contract that the package ships."""

import asyncio
from pathlib import Path

import pytest

from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.store_contract import DURABLE_CONTRACT, STORE_CONTRACT, Check


@pytest.mark.parametrize("check", STORE_CONTRACT, ids=lambda check: check.__name__)
def test_the_memory_store_keeps_the_contract(check: Check) -> None:
    asyncio.run(check(MemoryStore.open))


@pytest.mark.parametrize("check", [*STORE_CONTRACT, *DURABLE_CONTRACT], ids=lambda check: check.__name__)
def test_the_sqlite_store_keeps_the_contract(check: Check, tmp_path: Path) -> None:
    asyncio.run(check(lambda: SqliteStore.open(tmp_path)))
