"""The ledger of every store of the package keeps the contract that the package ships."""

import asyncio
from pathlib import Path

import pytest

from timeloom.stores.in_memory.store import MemoryStore
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.ledger_contract import DURABLE_LEDGER_CONTRACT, LEDGER_CONTRACT, Check


@pytest.mark.parametrize("check", LEDGER_CONTRACT, ids=lambda check: check.__name__)
def test_the_ledger_in_memory_keeps_the_contract(check: Check) -> None:
    asyncio.run(check(MemoryStore.open))


@pytest.mark.parametrize("check", [*LEDGER_CONTRACT, *DURABLE_LEDGER_CONTRACT], ids=lambda check: check.__name__)
def test_the_ledger_on_disk_keeps_the_contract(check: Check, tmp_path: Path) -> None:
    asyncio.run(check(lambda: SqliteStore.open(tmp_path)))
