"""Full and failing disks: the operations that the SQLite store accepts and refuses."""

import asyncio
import errno
import math
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
from typing_extensions import override

from timeloom.core.blocks import UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.ports.journal import ConflictError
from timeloom.ports.store import StoreError
from timeloom.stores.disk import Disk
from timeloom.stores.sqlite import SqliteStore, connections, writer
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.tables import append_delete
from timeloom.testing.store_contract.fixtures import CONVERSATION, draft, expect_error, header, thought

LARGE = "a large text " * 4000


class FailingDisk(Disk):
    """A disk that can be set to be full."""

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
            error, _ = await asyncio.gather(expect_error("store_unwritable", with_payload), without)
            assert str(tmp_path) not in str(error)
            assert (await opened.info(CONVERSATION)).tail == 1
            disk.fails = ""
            await opened.append(CONVERSATION, 1, [draft(UserPrompt(text=LARGE))])
            assert (await opened.verify()).findings == ()

    asyncio.run(attempt())


def test_a_full_disk_refuses_appends_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = connections.ConnectionPool.writer

    def small(self: connections.ConnectionPool) -> Database:
        connection = original(self)
        connection.execute("PRAGMA max_page_count = 60").fetchall()
        return connection

    monkeypatch.setattr(connections.ConnectionPool, "writer", small)

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            names = [ConversationId(f"conv_{n}") for n in range(8)]
            tails = dict.fromkeys(names, 0)
            full = 0
            for n in range(40):
                drafts = [thought("x" * 3000)] if n else [header()]
                appends = (opened.append(name, tails[name], drafts) for name in names)
                for name, outcome in zip(names, await asyncio.gather(*appends, return_exceptions=True), strict=True):
                    if isinstance(outcome, StoreError):
                        assert outcome.code == "store_unwritable"
                        full += 1
                    elif not isinstance(outcome, ConflictError):
                        tails[name] += 1
            assert full
            assert {name: (await opened.info(name)).tail for name in names} == tails
            assert (await opened.verify()).findings == ()

    asyncio.run(attempt())


def test_a_long_queue_is_carried_out_in_several_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_REQUESTS", 3)

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as opened:
            names = [ConversationId(f"conv_{n}") for n in range(20)]
            await asyncio.gather(*(opened.append(name, 0, [header()]) for name in names))
            assert len(await opened.conversation_ids()) == 20

    asyncio.run(attempt())


class _FailingFile(apsw.VFSFile):
    fails = ""
    """The end of the name of the file that cannot be synced."""

    def __init__(self, base: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__(base, name, flags)
        self.file_name = name.filename() if isinstance(name, apsw.URIFilename) else name

    @override
    def xSync(self, flags: int) -> None:
        if _FailingFile.fails and self.file_name.endswith(_FailingFile.fails):
            raise apsw.IOError("the disk is gone")
        super().xSync(flags)


class _FailingVfs(apsw.VFS):
    @override
    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        assert name is not None
        return _FailingFile("", name, flags)


def test_after_a_failed_sync_nothing_is_accepted_until_the_store_is_opened_again(tmp_path: Path) -> None:
    vfs = _FailingVfs("failing-sync", "")

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path, vfs="failing-sync") as opened:
            await opened.append(CONVERSATION, 0, [header()])
            _FailingFile.fails = "journal.db-wal"
            await expect_error("store_unwritable", opened.append(CONVERSATION, 1, [thought("lost?")]))
            _FailingFile.fails = ""
            error = await expect_error("store_unwritable", opened.append(CONVERSATION, 1, [thought("refused")]))
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


def test_a_checkpoint_that_fails_ends_writing_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 1)
    vfs = _FailingVfs("failing-checkpoint", "")

    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path, vfs="failing-checkpoint") as opened:
            _FailingFile.fails = "journal.db"
            await opened.append(CONVERSATION, 0, [header()])
            await expect_error("store_unwritable", opened.append(CONVERSATION, 1, [thought("refused")]))
            _FailingFile.fails = ""
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 1, [thought("on")])

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
        # Nobody is ever alone, so that it is the writer's thread that meets it.
        monkeypatch.setattr(writer, "LONE_S", math.inf)
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 0, [header()])
            with monkeypatch.context() as patch:
                patch.setattr(append_delete.Appender, "append", broken)
                await expect_error("store_closed", opened.append(CONVERSATION, 1, [thought("x")]))
            await expect_error("store_closed", opened.append(CONVERSATION, 1, [thought("x")]))
            assert len(await opened.load(CONVERSATION)) == 1
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 1, [thought("x")])

    asyncio.run(attempt())


def test_an_error_nobody_foresaw_where_one_is_alone_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = append_delete.Appender.append

    def broken(*given: Any) -> append_delete.ConversationRow:
        if threading.current_thread() is threading.main_thread():
            raise ZeroDivisionError
        return append(*given)

    async def attempt() -> None:
        monkeypatch.setattr(writer, "LONE_S", -1.0)
        monkeypatch.setattr(writer, "QUICK_S", 60.0)
        async with await SqliteStore.open(tmp_path) as opened:
            await opened.append(CONVERSATION, 0, [header()])
            tail = 1
            with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
                patch.setattr(append_delete.Appender, "append", broken)
                while True:
                    # The writer's thread takes it as long as that is not done with the one before.
                    await opened.append(CONVERSATION, tail, [thought("x")])
                    tail += 1
            await opened.append(CONVERSATION, tail, [thought("x")])
            assert len(await opened.load(CONVERSATION)) == tail + 1

    asyncio.run(attempt())


def test_what_an_error_of_the_database_means() -> None:
    for error, code in (
        (apsw.BusyError(), "store_locked"),
        (apsw.FullError(), "store_unwritable"),
        (apsw.CorruptError(), "store_damaged"),
    ):
        assert connections.to_store_error(error).code == code
