"""A data folder that lost its journal or its write-ahead log is refused and stays as it is."""

import asyncio
import shutil
from pathlib import Path
from typing import cast

import apsw
import pytest

from timeloom.core.blocks import Attachment, TurnEnded
from timeloom.ports.store import StoreError
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.database import Database
from timeloom.testing.store_contract.fixtures import CONVERSATION, PATH, draft, header, thought

PICTURE = draft(Attachment(artifact_path=PATH, mime="a/b", data=b"picture"))


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A data folder with a payload, closed completely."""

    async def fill() -> None:
        async with await SqliteStore.open(tmp_path / "closed") as store:
            await store.append(CONVERSATION, 0, [header(), PICTURE])

    asyncio.run(fill())
    return tmp_path / "closed"


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder as a killed process leaves it: all its entries are in the write-ahead log."""

    async def fill() -> None:
        async with await SqliteStore.open(tmp_path / "live") as store:
            await store.append(CONVERSATION, 0, [header(), PICTURE, thought("newest")])
            await asyncio.to_thread(shutil.copytree, tmp_path / "live", tmp_path / "killed")

    asyncio.run(fill())
    return tmp_path / "killed"


async def count_entries(folder: Path) -> int:
    async with await SqliteStore.open(folder) as store:
        return len(await store.load(CONVERSATION))


def refused(folder: Path) -> str:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "open.lock"}
    with pytest.raises(StoreError) as caught:
        asyncio.run(count_entries(folder))
    assert caught.value.code == "store_damaged"
    assert str(folder) not in str(caught.value)
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "open.lock"}
    assert after == before
    return str(caught.value)


def test_payloads_without_a_journal_are_refused_with_what_to_do(closed: Path) -> None:
    (closed / "journal.db").unlink()
    message = refused(closed)
    assert "backup" in message and "--salvage" in message
    assert not (closed / "journal.db").exists()


def test_payloads_with_an_empty_journal_are_refused(closed: Path) -> None:
    (closed / "journal.db").write_bytes(b"")
    assert "journal.db is missing or empty" in refused(closed)


def test_a_journal_whose_log_was_removed_is_refused_with_what_to_do(closed: Path, tmp_path: Path) -> None:
    async def go_on() -> None:
        async with await SqliteStore.open(closed) as store:
            await store.append(CONVERSATION, 2, [thought("newest")])
            await asyncio.to_thread(shutil.copytree, closed, tmp_path / "killed")

    asyncio.run(go_on())
    (tmp_path / "killed" / "journal.db-wal").unlink()
    (tmp_path / "killed" / "journal.db-shm").unlink()
    message = refused(tmp_path / "killed")
    assert "put both files back" in message and "--salvage" in message
    (tmp_path / "killed" / "wal.mark").unlink()
    assert asyncio.run(count_entries(tmp_path / "killed")) == 2


@pytest.mark.parametrize("scrub", [True, False])
def test_a_log_that_is_lost_after_a_checkpoint_is_noticed(scrub: bool, tmp_path: Path) -> None:
    async def fill() -> None:
        async with await SqliteStore.open(tmp_path / "live") as store:
            await store.append(CONVERSATION, 0, [header(), *(thought("x" * 30_000) for _ in range(20))])
            for tail in range(21, 321, 20):
                await store.append(CONVERSATION, tail, [thought("x" * 30_000) for _ in range(20)])
            if scrub:
                await store.scrub()
            await store.append(CONVERSATION, 321, [thought("newest")])
            await asyncio.to_thread(shutil.copytree, tmp_path / "live", tmp_path / "killed")

    asyncio.run(fill())
    (tmp_path / "killed" / "journal.db-wal").unlink()
    (tmp_path / "killed" / "journal.db-shm").unlink()
    with pytest.raises(StoreError, match="older than its last commit"):
        asyncio.run(count_entries(tmp_path / "killed"))


def test_a_log_that_another_program_copied_into_the_database_is_not_missed(killed: Path) -> None:
    connection = cast(Database, apsw.Connection(str(killed / "journal.db")))
    connection.execute("SELECT count(*) FROM entries").fetchall()
    connection.close()
    assert not (killed / "journal.db-wal").exists()
    assert asyncio.run(count_entries(killed)) == 3


def test_payloads_beside_a_journal_without_tables_are_refused(killed: Path) -> None:
    for name in ("journal.db-wal", "journal.db-shm", "wal.mark"):
        (killed / name).unlink()
    with pytest.raises(StoreError, match="missing or empty"):
        asyncio.run(count_entries(killed))


def test_a_read_only_open_of_a_journal_without_tables_says_what_was_lost(killed: Path) -> None:
    for name in ("journal.db-wal", "journal.db-shm"):
        (killed / name).unlink()
    with pytest.raises(StoreError, match=r"missing or empty.*--salvage"):
        asyncio.run(SqliteStore.open_read_only(killed))


def test_a_killed_process_leaves_a_folder_that_opens(killed: Path) -> None:
    assert asyncio.run(count_entries(killed)) == 3
    assert asyncio.run(count_entries(killed)) == 3


def test_a_damaged_mark_is_ignored(closed: Path) -> None:
    (closed / "wal.mark").write_bytes(b"\xff not a number")
    assert asyncio.run(count_entries(closed)) == 2


def test_a_new_folder_and_one_with_a_staged_payload_only_open(tmp_path: Path) -> None:
    (tmp_path / "blobs" / "incoming").mkdir(parents=True)
    (tmp_path / "blobs" / "incoming" / "tmpx").write_bytes(b"half")

    async def begin() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await store.append(CONVERSATION, 0, [header()])

    asyncio.run(begin())


@pytest.mark.parametrize("rest", ["wal.mark", "heads"])
@pytest.mark.parametrize("empty", [True, False])
def test_a_folder_without_payloads_whose_journal_is_lost_is_refused(rest: str, empty: bool, tmp_path: Path) -> None:
    async def fill() -> None:
        async with await SqliteStore.open(tmp_path / "data") as store:
            await store.append(CONVERSATION, 0, [header(), thought("small"), draft(TurnEnded(reason="completed"))])

    asyncio.run(fill())
    data = tmp_path / "data"
    (data / "journal.db").unlink()
    if empty:
        (data / "journal.db").touch()
    if rest == "heads":
        (data / "wal.mark").unlink()
    else:
        shutil.rmtree(data / "heads")
    assert "journal.db is missing or empty" in refused(data)
    assert (data / "journal.db").exists() == empty
