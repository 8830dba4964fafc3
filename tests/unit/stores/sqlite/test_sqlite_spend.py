"""The table of costs: filled for older journals, compared by a verification, and read without entries."""

import asyncio
from pathlib import Path
from typing import cast

import apsw

from timeloom.core.blocks import ModelAnswered, Usage
from timeloom.core.timeline import Draft
from timeloom.ports.spend import SpendPage, SpendQuery
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.migrations import MIGRATIONS
from timeloom.testing.store_contract.fixtures import CONVERSATION, TURN, header

QUERY = SpendQuery(by=("day", "model", "conversation"))


def answer(cost: int) -> Draft:
    usage = Usage(input_tokens=1, output_tokens=2, cost_nano_usd=cost)
    block = ModelAnswered(round=1, model="m", stop_reason="end", usage=usage)
    return Draft(TURN, "2026-02-09T02:14:32.676425Z", block)


async def fill(folder: Path) -> SpendPage:
    async with await SqliteStore.open(folder) as store:
        await store.append(CONVERSATION, 0, [header(), answer(100)])
        await store.append(CONVERSATION, 2, [answer(7)])
        return await store.read_spend(QUERY)


async def read(folder: Path) -> tuple[SpendPage, list[str]]:
    async with await SqliteStore.open(folder) as store:
        return await store.read_spend(QUERY), [one.code for one in (await store.verify()).findings]


def execute(folder: Path, sql: str) -> None:
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    connection.execute(sql).fetchall()
    connection.close()


def test_an_older_journal_gets_its_costs_when_it_is_opened(tmp_path: Path) -> None:
    before = asyncio.run(fill(tmp_path))
    version = [migration.name for migration in MIGRATIONS].index("spend")
    execute(tmp_path, f"DROP TABLE spend; DELETE FROM migrations WHERE n > {version}; PRAGMA user_version = {version}")
    assert before.total.cost_nano_usd == 107
    assert asyncio.run(read(tmp_path)) == (before, [])


def test_a_changed_sum_is_found_by_a_verification(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    execute(tmp_path, "UPDATE spend SET cost_nano_usd = 1")
    page, codes = asyncio.run(read(tmp_path))
    assert (page.total.cost_nano_usd, codes) == (1, ["store_damaged"])


def test_a_bill_uses_the_key_of_the_table(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    connection = cast(Database, apsw.Connection(str(tmp_path / "journal.db")))
    sql = "EXPLAIN QUERY PLAN SELECT day, total(calls) FROM spend WHERE tenant = 't' AND project = 'p' AND day >= '2'"
    assert "USING PRIMARY KEY (tenant=? AND project=? AND day>?)" in str(connection.execute(sql).fetchall())
    connection.close()
