"""Records in the journal: damage, read-only folders, copies, and bytes that stay after an erase."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar, cast

import apsw
import pytest

from tests.harness.journal import UNDO_AFTER_FEEDBACK
from timeloom.core.codes import CodedError
from timeloom.ports.records import ABSENT, RecordAddress, RecordQuery
from timeloom.ports.store import StoreError
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.backup import copy_store
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.migrations import MIGRATIONS
from timeloom.stores.sqlite.salvage import salvage

T = TypeVar("T")

NOTES = [RecordAddress(kind="note", tenant="t", user="ann", key=f"{n:03}") for n in range(40)]
SECRET = b"swordfish-4711"


def run(work: Coroutine[None, None, T]) -> T:
    return asyncio.run(work)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with forty records of ann, and one of the whole server."""

    async def fill() -> None:
        async with await SqliteStore.open(tmp_path / "data") as store:
            for n, address in enumerate(NOTES):
                await store.records.put(address, b'{"n":%d,"text":"%s"}' % (n, SECRET), expected=ABSENT)
            await store.records.put(RecordAddress(kind="api_key", key="k"), b"{}", expected=ABSENT)

    run(fill())
    return tmp_path / "data"


def execute(folder: Path, sql: str) -> None:
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    connection.execute(sql).fetchall()
    connection.close()


async def list_keys(folder: Path) -> list[str]:
    async with await SqliteStore.open_read_only(folder) as store:
        return [record.address.key for record in (await store.records.list(RecordQuery(limit=500))).records]


def test_a_changed_record_is_reported_and_the_others_stay_readable(folder: Path) -> None:
    execute(folder, "UPDATE records SET value = CAST('{}' AS BLOB) WHERE key = '007'")

    async def check() -> None:
        async with await SqliteStore.open(folder) as store:
            with pytest.raises(StoreError, match="record note '007' has a wrong checksum; delete it"):
                await store.records.get(NOTES[7])
            assert await store.records.get(NOTES[8])
            report = await store.verify()
            assert [(one.code, "'007'" in one.message) for one in report.findings] == [("store_damaged", True)]
            assert report.records == 41
            assert await store.records.delete(NOTES[7], expected=None)
            assert (await store.verify()).findings == ()

    run(check())


@pytest.mark.parametrize("change", ["tenant = 'other'", "version = 99", "expires_us = 5", "key = 'moved'"])
def test_a_moved_record_is_noticed(folder: Path, change: str) -> None:
    execute(folder, f"UPDATE records SET {change} WHERE key = '007'")

    async def count_findings() -> int:
        async with await SqliteStore.open(folder) as store:
            return len((await store.verify()).findings)

    assert run(count_findings()) == 1


def test_a_read_only_folder_shows_its_records_and_takes_none(folder: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open_read_only(folder) as store:
            assert await store.records.get(NOTES[0])
            assert await store.records.revision("note") == len(NOTES)
            with pytest.raises(StoreError) as raised:
                await store.records.put(NOTES[0], b"{}", expected=None)
            assert raised.value.code == "store_unwritable"

    run(check())


def test_an_older_journal_gets_its_records_when_it_is_opened_for_writing(folder: Path) -> None:
    version = [migration.name for migration in MIGRATIONS].index("log number")
    undo = f"{UNDO_AFTER_FEEDBACK} DELETE FROM migrations WHERE n > {version}; PRAGMA user_version = {version}"
    execute(folder, undo)
    (folder / "wal.mark").unlink()

    async def check() -> None:
        async with await SqliteStore.open_read_only(folder) as store:
            assert (await store.records.list(RecordQuery())).records == ()
            assert (await store.records.get(NOTES[0]), await store.records.revision("note")) == (None, 0)
            assert (await store.verify()).records == 0
        async with await SqliteStore.open(folder) as store:
            assert await store.records.put(NOTES[0], b"{}", expected=ABSENT) == 1

    run(check())


def test_a_backup_has_the_records(folder: Path, tmp_path: Path) -> None:
    run(copy_store(folder, tmp_path / "copy"))
    assert run(list_keys(tmp_path / "copy")) == ["k", *(note.key for note in NOTES)]


def test_a_salvage_keeps_readable_records_with_their_versions(folder: Path, tmp_path: Path) -> None:
    execute(folder, "UPDATE records SET value = CAST('{}' AS BLOB) WHERE key = '007'")
    report = run(salvage(folder, tmp_path / "out"))
    assert report.records == len(NOTES)
    assert run(list_keys(tmp_path / "out")) == ["k", *(note.key for note in NOTES if note.key != "007")]

    async def check() -> None:
        async with await SqliteStore.open(tmp_path / "out") as store:
            assert (await store.verify()).findings == ()
            found = await store.records.get(NOTES[3])
            assert found and found.version == 4
            assert await store.records.put(NOTES[7], b"{}", expected=ABSENT) == len(NOTES) + 1

    run(check())


@pytest.mark.parametrize("sql", ["DROP TABLE records", "DROP TABLE record_kinds"])
def test_a_salvage_without_the_tables_of_records_ends(folder: Path, tmp_path: Path, sql: str) -> None:
    execute(folder, sql)
    report = run(salvage(folder, tmp_path / "out"))
    assert report.records == (0 if sql.endswith("records") else len(NOTES) + 1)


def test_erased_records_leave_no_bytes_behind(folder: Path) -> None:
    async def erase() -> None:
        async with await SqliteStore.open(folder) as store:
            assert await store.records.erase_user("t", "ann") == len(NOTES)
            await store.scrub()

    assert any(SECRET in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    run(erase())
    assert not any(SECRET in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert run(list_keys(folder)) == ["k"]


def test_long_lists_are_read_by_their_index(folder: Path) -> None:
    def plan(sql: str) -> str:
        connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
        try:
            return str(connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall())
        finally:
            connection.close()

    by_key = "kind = 'a' AND tenant = '' AND project = '' AND user = '' AND (key) > ('x')"
    order = "ORDER BY kind, tenant, project, user, key LIMIT 5"
    assert "user=? AND key>?" in plan(f"SELECT * FROM records WHERE {by_key} {order}")
    by_kind = "kind = 'a' AND (tenant, project, user, key) > ('', '', '', 'x')"
    assert "(kind=? AND (tenant,project,user,key)>(?,?,?,?))" in plan(f"SELECT * FROM records WHERE {by_kind} {order}")
    assert "records_owners" in plan("SELECT * FROM records WHERE tenant = 't' AND user = 'ann'")
    expired = "kind = 'a' AND expires_us <= 5 ORDER BY expires_us, version LIMIT 32"
    assert "records_expiry" in plan(f"SELECT n FROM records WHERE {expired}")


def test_a_refused_write_does_not_count_as_a_failure_of_the_disk(folder: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(folder) as store:
            with pytest.raises(CodedError, match="expected no record, found version 1"):
                await store.records.put(NOTES[0], b"{}", expected=ABSENT)
            assert store.write_failure == ""

    run(check())
