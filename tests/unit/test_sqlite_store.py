"""The SQLite store beyond the contract: files, locks, threads, failing disks and migrations."""

import asyncio
import errno
import os
import stat
import threading
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
from timeloom.ports.store import Store, StoreError
from timeloom.stores.blob_folder import BlobFolder
from timeloom.stores.disk import Disk
from timeloom.stores.sqlite import SqliteStore, changes, connections, schema, store
from timeloom.stores.sqlite.database import Database, Values
from timeloom.testing.store_contract.building import CONVERSATION, PATH, draft, header, refused, thought

LARGE = "a large text " * 2000


def rows(folder: Path, sql: str) -> list[Values]:
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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "journal.db", "open.lock"]


def test_a_folder_without_a_store_is_not_made_one_unless_wanted(tmp_path: Path) -> None:
    async def attempt() -> None:
        await refused("store_missing", SqliteStore.open(tmp_path, create=False))

    asyncio.run(attempt())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_used_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    async def attempt() -> None:
        error = await refused("store_unwritable", SqliteStore.open(tmp_path / "file"))
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
        await refused("store_unwritable", SqliteStore.open(tmp_path / "real"))

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
                await refused("store_locked", opened.append(CONVERSATION, 1, [thought("x")]))
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
            await refused("conflict", opened.append(CONVERSATION, 10**6, [thought("x")]))
            assert (await opened.info(CONVERSATION)).tail % 2 == 1
            assert (await opened.verify()).findings == ()

    asyncio.run(attempt())
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == []


def test_appends_that_wait_together_share_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []

    class CountingWriter(store.Writer):
        def _carry_out(self, group: Sequence[Any]) -> list[Exception | None]:
            groups.append(len(group))
            return super()._carry_out(group)

    monkeypatch.setattr(store, "Writer", CountingWriter)

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
    assert max(groups) >= 10


class FailingDisk(Disk):
    """A disk that is full as long as it is told to be."""

    def __init__(self) -> None:
        self.fails = ""

    def write_new(self, folder: Path, data: bytes) -> Path:
        if self.fails == "write":
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))
        return super().write_new(folder, data)

    def rename(self, source: Path, target: Path) -> None:
        if self.fails == "rename":
            raise OSError(errno.EIO, "Input/output error", str(target))
        super().rename(source, target)

    def sync(self, descriptor: int) -> None:
        if self.fails == "sync":
            raise OSError(errno.EIO, "Input/output error")
        super().sync(descriptor)


@pytest.mark.parametrize("fails", ["write", "rename", "sync"])
def test_a_payload_that_cannot_be_written_refuses_its_append_and_no_other(fails: str, tmp_path: Path) -> None:
    async def attempt() -> None:
        disk = FailingDisk()
        async with await SqliteStore.open(tmp_path, disk=disk) as opened:
            await opened.append(CONVERSATION, 0, [header()])
            disk.fails = fails
            with_payload = opened.append(CONVERSATION, 1, [thought("with it"), draft(UserPrompt(text=LARGE))])
            without = opened.append(ConversationId("conv_b"), 0, [header()])
            error, _ = await asyncio.gather(refused("store_unwritable", with_payload), without)
            assert str(tmp_path) not in str(error)
            assert (await opened.info(CONVERSATION)).tail == 1
            disk.fails = ""
            await opened.append(CONVERSATION, 1, [draft(UserPrompt(text=LARGE))])
            assert (await opened.verify()).findings == ()

    asyncio.run(attempt())


class _FailingFile(apsw.VFSFile):
    fails = False

    def sync(self, flags: int) -> None:
        if _FailingFile.fails:
            raise apsw.IOError("the disk is gone")
        apsw.VFSFile.xSync(self, flags)


# Named as the driver wants it.
_FailingSync = type("_FailingSync", (_FailingFile,), {"xSync": _FailingFile.sync})


class _FailingVfs(apsw.VFS):
    def open(self, name: str | apsw.URIFilename, flags: list[int]) -> apsw.VFSFile:
        return _FailingSync("", name, flags)


def test_after_a_failed_sync_nothing_is_accepted_until_the_store_is_opened_again(tmp_path: Path) -> None:
    vfs = type("FailingVfs", (_FailingVfs,), {"xOpen": _FailingVfs.open})("failing-sync", "")

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path, vfs="failing-sync") as opened:
            await opened.append(CONVERSATION, 0, [header()])
            _FailingFile.fails = True
            await refused("store_unwritable", opened.append(CONVERSATION, 1, [thought("lost?")]))
            _FailingFile.fails = False
            error = await refused("store_unwritable", opened.append(CONVERSATION, 1, [thought("refused")]))
            assert "open it again" in str(error)
            assert len(await opened.load(CONVERSATION)) == 1
        async with await SqliteStore.open(tmp_path) as opened:
            tail = (await opened.info(CONVERSATION)).tail
            assert tail in (1, 2)
            await opened.append(CONVERSATION, tail, [thought("on")])

    try:
        asyncio.run(attempt())
    finally:
        vfs.unregister()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_nobody_foresaw_ends_the_writer_and_everybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 0, [header()])
            with monkeypatch.context() as patch:
                patch.setattr(changes, "append", broken)
                await refused("store_closed", opened.append(CONVERSATION, 1, [thought("x")]))
            await refused("store_closed", opened.append(CONVERSATION, 1, [thought("x")]))
            assert len(await opened.load(CONVERSATION)) == 1
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 1, [thought("x")])

    asyncio.run(attempt())


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
        changes.delete(connection, CONVERSATION)
        connection.close()

    async def go_on() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            await refused("blob_missing", opened.read_blob("tenant", ref_of(b"mine")))
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


def test_migrations_are_recorded_by_name(tmp_path: Path) -> None:
    async def fill() -> None:
        async with await SqliteStore.open(tmp_path):
            pass

    asyncio.run(fill())
    expected = [(n, migration.name) for n, migration in enumerate(schema.MIGRATIONS, 1)]
    assert rows(tmp_path, "SELECT n, name FROM migrations ORDER BY n") == expected
    assert rows(tmp_path, "PRAGMA user_version") == [(len(expected),)]
    assert rows(tmp_path, "PRAGMA application_id") == [(schema.APPLICATION_ID,)]
    assert rows(tmp_path, "PRAGMA journal_mode") == [("wal",)]


def test_an_older_journal_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 0, [header()])

    extra = schema.Migration("extra", "CREATE TABLE extra(x) STRICT; INSERT INTO extra VALUES (1)")
    extra = extra._replace(sql=extra.sql.replace("(x)", "(x INTEGER)"))
    asyncio.run(use())
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, extra))

    async def use_again() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            assert len(await opened.load(CONVERSATION)) == 1

    asyncio.run(use_again())
    assert rows(tmp_path, "SELECT name FROM migrations ORDER BY n DESC LIMIT 1") == [("extra",)]
    assert rows(tmp_path, "SELECT x FROM extra") == [(1,)]


def test_a_migration_that_fails_leaves_nothing_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = schema.Migration("broken", "CREATE TABLE half(x INTEGER) STRICT; CREATE TABLE half(x INTEGER) STRICT")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, broken))

    async def attempt() -> None:
        with pytest.raises(StoreError):
            await SqliteStore.open(tmp_path)

    asyncio.run(attempt())
    assert rows(tmp_path, "SELECT count(*) FROM migrations") == [(len(schema.MIGRATIONS) - 1,)]
    assert rows(tmp_path, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'") == [(0,)]


def test_two_that_open_a_new_folder_at_once_both_succeed(tmp_path: Path) -> None:
    async def attempt() -> None:
        opened = await asyncio.gather(*(SqliteStore.open(tmp_path) for _ in range(6)))
        for n, each in enumerate(opened):
            await each.append(ConversationId(f"conv_{n}"), 0, [header()])
        assert (await opened[0].verify()).conversations == 6
        for each in opened:
            await each.close()

    asyncio.run(attempt())


def test_what_an_error_of_the_database_means() -> None:
    for error, code in (
        (apsw.BusyError(), "store_locked"),
        (apsw.FullError(), "store_unwritable"),
        (apsw.CorruptError(), "store_damaged"),
    ):
        assert connections.explained(error).code == code
