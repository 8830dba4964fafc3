"""Migrations of the journal: named, recorded, each whole or not at all."""

import asyncio
from pathlib import Path
from typing import cast

import apsw
import pytest

from timeloom.ports.store import StoreError
from timeloom.stores.sqlite import SqliteStore, migrations
from timeloom.stores.sqlite.database import Database, RowValues
from timeloom.testing.store_contract.fixtures import CONVERSATION, header


def rows(folder: Path, sql: str) -> list[RowValues]:
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_migrations_are_recorded_by_name(tmp_path: Path) -> None:
    async def fill() -> None:
        async with await SqliteStore.open(tmp_path):
            pass

    asyncio.run(fill())
    expected = [(n, migration.name) for n, migration in enumerate(migrations.MIGRATIONS, 1)]
    assert rows(tmp_path, "SELECT n, name FROM migrations ORDER BY n") == expected
    assert rows(tmp_path, "PRAGMA user_version") == [(len(expected),)]
    assert rows(tmp_path, "PRAGMA application_id") == [(migrations.APPLICATION_ID,)]
    assert rows(tmp_path, "PRAGMA journal_mode") == [("wal",)]


def test_an_older_journal_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 0, [header()])

    extra = migrations.Migration("extra", "CREATE TABLE extra(x) STRICT; INSERT INTO extra VALUES (1)")
    extra = extra._replace(sql=extra.sql.replace("(x)", "(x INTEGER)"))
    asyncio.run(use())
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, extra))

    async def use_again() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            assert len(await opened.load(CONVERSATION)) == 1

    asyncio.run(use_again())
    assert rows(tmp_path, "SELECT name FROM migrations ORDER BY n DESC LIMIT 1") == [("extra",)]
    assert rows(tmp_path, "SELECT x FROM extra") == [(1,)]


def test_a_migration_that_fails_leaves_nothing_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = migrations.Migration("broken", "CREATE TABLE half(x INTEGER) STRICT; CREATE TABLE half(x INTEGER) STRICT")
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, broken))

    async def attempt() -> None:
        with pytest.raises(StoreError):
            await SqliteStore.open(tmp_path)

    asyncio.run(attempt())
    assert rows(tmp_path, "SELECT count(*) FROM migrations") == [(len(migrations.MIGRATIONS) - 1,)]
    assert rows(tmp_path, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'") == [(0,)]
