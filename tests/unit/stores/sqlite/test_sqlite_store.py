"""The SQLite store beyond the contract: files, locks, threads, groups and deletes."""

import asyncio
import os
import stat
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from timeloom.core.blocks import Attachment, UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef, ref_of
from timeloom.ports.journal import ConflictError
from timeloom.ports.store import Store
from timeloom.stores.blob_folder import BlobFolder
from timeloom.stores.disk import Disk
from timeloom.stores.sqlite import SqliteStore, journal_file, writer
from timeloom.stores.sqlite.database import Database, RowValues
from timeloom.stores.sqlite.tables import append_delete
from timeloom.testing.store_contract.fixtures import CONVERSATION, PATH, draft, expect_error, header, thought

LARGE = "a large text " * 4000


def rows(folder: Path, sql: str) -> list[RowValues]:
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_it_is_a_store() -> None:
    def use(_: Store) -> None: ...

    use(cast(SqliteStore, None))


def test_its_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    async def fill() -> None:
        async with await SqliteStore.open(tmp_path / "data") as opened:
            await opened.append(CONVERSATION, 0, [header(), draft(UserPrompt(text=LARGE))])
            await opened.save_snapshot(CONVERSATION, 1, "v1", b"views")
            check()

    def check() -> None:
        for folder, _, names in os.walk(tmp_path / "data"):
            assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
            for name in names:
                assert stat.S_IMODE((Path(folder) / name).stat().st_mode) == 0o600

    asyncio.run(fill())
    check()


def test_a_closed_store_leaves_one_database_file(tmp_path: Path) -> None:
    async def fill() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 0, [header()])

    asyncio.run(fill())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "journal.db", "open.lock", "wal.mark"]


def test_a_folder_without_a_store_is_not_made_one_unless_wanted(tmp_path: Path) -> None:
    async def attempt() -> None:
        await expect_error("store_missing", SqliteStore.open(tmp_path, create=False))

    asyncio.run(attempt())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_used_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    async def attempt() -> None:
        error = await expect_error("store_unwritable", SqliteStore.open(tmp_path / "file"))
        assert str(tmp_path) not in str(error)

    asyncio.run(attempt())


def test_a_data_folder_may_be_reached_by_a_link_and_its_database_may_not_be_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path / "link") as opened:
            await opened.append(CONVERSATION, 0, [header()])
        (tmp_path / "real" / "journal.db").rename(tmp_path / "elsewhere.db")
        (tmp_path / "real" / "journal.db").symlink_to(tmp_path / "elsewhere.db")
        await expect_error("store_unwritable", SqliteStore.open(tmp_path / "real"))

    asyncio.run(attempt())


def test_a_batch_of_many_drafts_is_one_append(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 0, [header(), *(thought(str(n)) for n in range(3000))])
            assert [entry.seq for entry in await opened.load(CONVERSATION)] == list(range(1, 3002))

    asyncio.run(attempt())


@contextmanager
def write_lock(folder: Path) -> Generator[None]:
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.close()


def test_another_process_that_holds_the_store_too_long_is_named_as_the_reason(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path, lock_wait_s=0.05) as opened:
            await opened.append(CONVERSATION, 0, [header()])
            with write_lock(tmp_path):
                await expect_error("store_locked", opened.append(CONVERSATION, 1, [thought("x")]))
                assert len(await opened.load(CONVERSATION)) == 1
            await opened.append(CONVERSATION, 1, [thought("x")])

    asyncio.run(attempt())


def test_event_loops_of_several_threads_share_a_store(tmp_path: Path) -> None:
    opened = asyncio.run(SqliteStore.open(tmp_path))
    names = [ConversationId(f"conv_{n}") for n in range(4)]

    def converse(name: ConversationId) -> None:
        async def work() -> None:
            for tail in range(20):
                await opened.append(name, tail, [thought(str(tail)) if tail else header()])

        asyncio.run(work())

    threads = [threading.Thread(target=converse, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def check() -> None:
        for name in names:
            assert [entry.seq for entry in await opened.load(name)] == list(range(1, 21))
        await opened.close()

    asyncio.run(check())


def test_an_append_whose_caller_gave_up_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 0, [header()])
            for _ in range(20):
                tail = (await opened.info(CONVERSATION)).tail
                task = asyncio.create_task(opened.append(CONVERSATION, tail, [thought("x"), thought(LARGE)]))
                for _ in range(tail % 4):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            # What was accepted is finished in order, so this comes after it.
            await expect_error("conflict", opened.append(CONVERSATION, 10**6, [thought("x")]))
            assert (await opened.info(CONVERSATION)).tail % 2 == 1
            assert (await opened.verify()).findings == ()

    asyncio.run(attempt())
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == []


class WatchedWriter(writer.Writer):
    """Counts the changes that the writer's own thread carried out."""

    by_thread = 0

    def _carry_out(self, group: Sequence[Any]) -> list[Exception | None]:
        type(self).by_thread += len(group)
        return super()._carry_out(group)


def test_a_lone_writer_commits_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_file, "Writer", WatchedWriter)
    monkeypatch.setattr(WatchedWriter, "by_thread", 0)
    monkeypatch.setattr(writer, "LONE_S", 0.0)
    monkeypatch.setattr(writer, "QUICK_S", 60.0)
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 64)

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            other = ConversationId("conv_other")
            await opened.append(CONVERSATION, 0, [header()])
            for tail in range(1, 60):
                await opened.append(CONVERSATION, tail, [thought("x" * 500)])
            assert WatchedWriter.by_thread < 60
            await opened.append(other, 0, [header()])
            await expect_error("conflict", opened.append(other, 7, [thought("x")]))
            assert len(await opened.load(CONVERSATION)) == 60
            assert (await opened.verify()).findings == ()

    asyncio.run(attempt())


class SlowDisk(Disk):
    """Takes a second to prepare a write-ahead log."""

    def preallocate(self, path: Path, size_bytes: int) -> None:
        super().preallocate(path, size_bytes)
        time.sleep(1.0)


def test_the_slow_begin_of_a_log_does_not_keep_a_lone_writer_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_file, "Writer", WatchedWriter)
    monkeypatch.setattr(WatchedWriter, "by_thread", 0)
    monkeypatch.setattr(writer, "LONE_S", 0.0)
    monkeypatch.setattr(writer, "QUICK_S", 0.05)

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path, disk=SlowDisk()) as opened:
            await opened.append(CONVERSATION, 0, [header()])
            for tail in range(1, 58):
                await opened.append(CONVERSATION, tail, [thought("x")])

    asyncio.run(attempt())
    assert WatchedWriter.by_thread < 58


def test_a_lone_writer_waits_for_another_process_in_the_writers_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LONE_S", 0.0)
    monkeypatch.setattr(writer, "QUICK_S", 60.0)

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path, lock_wait_s=0.2) as opened:
            await opened.append(CONVERSATION, 0, [header()])
            await opened.append(CONVERSATION, 1, [thought("x")])
            with write_lock(tmp_path):
                await expect_error("store_locked", opened.append(CONVERSATION, 2, [thought("y")]))
            assert [entry.seq for entry in await opened.append(CONVERSATION, 2, [thought("y")])] == [3]

    asyncio.run(attempt())


def test_appends_that_wait_together_share_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []

    class CountingWriter(writer.Writer):
        def _carry_out(self, group: Sequence[Any]) -> list[Exception | None]:
            groups.append(len(group))
            return super()._carry_out(group)

    monkeypatch.setattr(journal_file, "Writer", CountingWriter)

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path, lock_wait_s=30) as opened:
            # While the first waits for the lock, the others gather behind it.
            with write_lock(tmp_path):
                names = [ConversationId(f"conv_{n}") for n in range(10)]
                appends = [asyncio.create_task(opened.append(name, 0, [header()])) for name in names]
                twice = asyncio.create_task(opened.append(names[3], 0, [header()]))
                await asyncio.sleep(0.1)
            await asyncio.gather(*appends)
            with pytest.raises(ConflictError):
                await twice

    asyncio.run(attempt())
    assert sum(groups) == 11
    assert len(groups) <= 2


def test_deleted_text_is_not_left_in_the_files(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            secret = [draft(UserPrompt(text="xylophonist secret")), thought("unsaid secret")]
            await opened.append(CONVERSATION, 0, [header(user="somebody"), *secret, draft(UserPrompt(text=LARGE))])
            await opened.save_snapshot(CONVERSATION, 2, "v1", b"secret views")
            await opened.append(ConversationId("conv_b"), 0, [header(), draft(UserPrompt(text="something public"))])
            await opened.delete(CONVERSATION)

    asyncio.run(attempt())
    left = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"public" in left
    for word in (b"xylophonist", b"secret", b"somebody", b"a large text"):
        assert word not in left


def test_a_delete_that_was_cut_short_is_finished_when_the_store_opens(tmp_path: Path) -> None:
    mine, shared = (draft(Attachment(artifact_path=PATH, mime="a/b", data=data)) for data in (b"mine", b"shared"))

    async def begin() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 0, [header(), mine, shared])
            await opened.append(ConversationId("conv_b"), 0, [header(), shared])

    def half_delete() -> None:
        connection = cast(Database, apsw.Connection(str(tmp_path / "journal.db")))
        append_delete.delete(connection, CONVERSATION)
        connection.close()

    async def go_on() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            await expect_error("blob_missing", opened.read_blob("tenant", ref_of(b"mine")))
            assert await opened.read_blob("tenant", ref_of(b"shared")) == b"shared"
            verified = await opened.verify()
            assert (verified.findings, verified.orphans) == ((), 0)

    asyncio.run(begin())
    half_delete()
    assert len(rows(tmp_path, "SELECT * FROM doomed")) == 2
    asyncio.run(go_on())
    assert rows(tmp_path, "SELECT * FROM doomed") == []


def test_a_payload_that_vanished_after_it_was_looked_for_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when another process deletes the only other conversation that uses it in that moment."""
    attachment = draft(Attachment(artifact_path=PATH, mime="a/b", data=b"shared"))
    look, answers = BlobFolder.has, iter([True])

    def mistaken_once(self: BlobFolder, tenant: str, ref: BlobRef) -> bool:
        return next(answers, False) or look(self, tenant, ref)

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            monkeypatch.setattr(BlobFolder, "has", mistaken_once)
            await opened.append(CONVERSATION, 0, [header(), attachment])
            assert await opened.read_blob("tenant", ref_of(b"shared")) == b"shared"
            assert (await opened.verify()).findings == ()

    asyncio.run(attempt())


def test_two_that_open_a_new_folder_at_once_both_succeed(tmp_path: Path) -> None:
    async def attempt() -> None:
        opened = await asyncio.gather(*(SqliteStore.open(tmp_path) for _ in range(6)))
        for n, each in enumerate(opened):
            await each.append(ConversationId(f"conv_{n}"), 0, [header()])
        assert (await opened[0].verify()).conversations == 6
        for each in opened:
            await each.close()

    asyncio.run(attempt())


def test_a_probe_fails_while_no_payload_can_be_written(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            blobs = tmp_path / "blobs"
            blobs.rename(tmp_path / "away")
            blobs.write_bytes(b"")
            await expect_error("store_unwritable", opened.probe_write())
            blobs.unlink()
            (tmp_path / "away").rename(blobs)
            await opened.probe_write()
            assert [one for one in blobs.rglob("*") if one.is_file()] == []

    asyncio.run(check())
