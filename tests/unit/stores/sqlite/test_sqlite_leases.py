"""Leases of the SQLite store beyond the contract: killed holders, copied folders, older journals."""

import asyncio
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import cast

import apsw
import pytest

from timeloom.ports.leases import ConversationHeldError, LeaseLostError
from timeloom.stores.sqlite import SqliteStore, migrations
from timeloom.stores.sqlite.database import Database
from timeloom.testing.store_contract.fixtures import CONVERSATION, expect_error, header, thought

HOLDER = textwrap.dedent(
    """
    import asyncio, sys
    from timeloom.stores.sqlite import SqliteStore
    from timeloom.testing.store_contract.fixtures import CONVERSATION, header, thought

    async def main():
        async with await SqliteStore.open(sys.argv[1]) as store:
            await store.append(CONVERSATION, 0, [header()])
            lease = await store.acquire(CONVERSATION, "the program")
            await store.append(CONVERSATION, 1, [thought("held")], lease)
            print("held", flush=True)
            await asyncio.sleep(60)

    asyncio.run(main())
    """
)


def changed(folder: Path, sql: str) -> None:
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    connection.execute(sql).fetchall()
    connection.close()


def test_the_conversation_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    async def attempt(process: subprocess.Popen[str]) -> None:
        async with await SqliteStore.open(tmp_path) as store:
            error = await expect_error("conversation_held", store.acquire(CONVERSATION, "another"))
            assert isinstance(error, ConversationHeldError)
            assert "the program" in str(error) and f"process {process.pid} on " in str(error)
            assert str(tmp_path) not in str(error)
            process.kill()
            process.wait()
            lease = await store.acquire(CONVERSATION, "another")
            await store.append(CONVERSATION, 2, [thought("taken over")], lease)

    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        asyncio.run(attempt(process))
    assert list((tmp_path / "holders").iterdir()) == []


def test_what_still_runs_of_a_holder_that_was_taken_for_dead_is_refused(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as old, await SqliteStore.open(tmp_path) as new:
            await old.append(CONVERSATION, 0, [header()])
            lease = await old.acquire(CONVERSATION, "old")
            await old.append(CONVERSATION, 1, [thought("still mine")], lease)
            for file in (tmp_path / "holders").iterdir():
                file.unlink()
            taken = await new.acquire(CONVERSATION, "new")
            with pytest.raises(LeaseLostError, match="new, process"):
                await old.append(CONVERSATION, 2, [thought("late")], lease)
            await old.release(lease)
            await new.append(CONVERSATION, 2, [thought("on")], taken)
            assert len(await old.load(CONVERSATION)) == 3

    asyncio.run(attempt())


def test_a_folder_that_was_copied_while_it_was_open_is_free(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path / "data") as store:
            await store.append(CONVERSATION, 0, [header()])
            await store.acquire(CONVERSATION, "here")
            shutil.copytree(tmp_path / "data", tmp_path / "copy")
            async with await SqliteStore.open(tmp_path / "copy") as copy:
                # The first to open it has removed what it brought along.
                assert list((tmp_path / "copy" / "holders").iterdir()) == []
                await copy.acquire(CONVERSATION, "there")
            await expect_error("conversation_held", store.acquire(CONVERSATION, "there"))

    asyncio.run(attempt())


def test_a_store_makes_a_holder_file_only_when_it_holds_something(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await store.append(CONVERSATION, 0, [header()])
            assert not (tmp_path / "holders").exists()
            lease = await store.acquire(CONVERSATION, "holder")
            assert len(list((tmp_path / "holders").iterdir())) == 1
            await store.release(lease)
        assert list((tmp_path / "holders").iterdir()) == []

    asyncio.run(attempt())


def test_where_no_holder_file_can_be_made_nothing_is_held(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await store.append(CONVERSATION, 0, [header()])
            (tmp_path / "holders").write_text("in the way")
            error = await expect_error("store_unwritable", store.acquire(CONVERSATION, "holder"))
            assert str(tmp_path) not in str(error)
            await store.append(CONVERSATION, 1, [thought("free")])

    asyncio.run(attempt())


def test_a_holder_that_nobody_can_be_holds_nothing(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await store.append(CONVERSATION, 0, [header()])
            changed(tmp_path, "UPDATE conversations SET epoch = 7, holder = '../../x', held_by = 'x'")
            await store.append(CONVERSATION, 1, [thought("on")])
            await store.acquire(CONVERSATION, "holder")

    asyncio.run(attempt())


def test_conversations_of_an_older_journal_can_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(tmp_path, monkeypatch)

    async def use() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            lease = await store.acquire(CONVERSATION, "holder")
            await store.append(CONVERSATION, 1, [thought("on")], lease)
            assert (await store.verify()).findings == ()

    asyncio.run(use())


def test_an_older_journal_that_is_damaged_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(tmp_path, monkeypatch, entries=2000)
    with (tmp_path / "journal.db").open("r+b") as file:
        file.truncate((tmp_path / "journal.db").stat().st_size - 4096)

    async def look() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            assert (await store.load(CONVERSATION, limit=1))[0].seq == 1
            await expect_error("store_damaged", store.append(CONVERSATION, 1, [thought("on")]))
            await expect_error("store_damaged", store.acquire(CONVERSATION, "holder"))
            findings = (await store.verify()).findings
            assert findings
            assert not [each for each in findings if "the schema of" in each.message]

    asyncio.run(look())


def make_old(folder: Path, monkeypatch: pytest.MonkeyPatch, entries: int = 0) -> None:
    """A journal as it was before there were leases."""

    def fill(connection: Database) -> None:
        migrations.migrate(connection)
        connection.execute(
            "INSERT INTO conversations(id, tenant, project, user, bundle, parent, started_ts, title, title_seq,"
            " last_ts, tail) SELECT id, tenant, project, user, bundle, parent, started_ts, title, title_seq, last_ts,"
            " tail FROM new.conversations"
        )
        connection.execute("INSERT INTO entries SELECT place, form, crc, record FROM new.entries")

    async def make_new() -> None:
        async with await SqliteStore.open(folder / "new") as store:
            await store.append(CONVERSATION, 0, [header(), *(thought(f"{n} " * 50) for n in range(entries))])

    asyncio.run(make_new())
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:3])
        connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("ATTACH ? AS new", (str(folder / "new" / "journal.db"),))
        fill(connection)
        connection.close()
    shutil.rmtree(folder / "new")
