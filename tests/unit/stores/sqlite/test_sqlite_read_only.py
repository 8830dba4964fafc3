"""A folder that cannot be written is read completely, also with entries in its write-ahead log."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from click.testing import CliRunner

from timeloom.cli import main
from timeloom.core.blocks import Attachment, TurnEnded
from timeloom.core.payload import ref_of
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.store_contract.fixtures import CONVERSATION, PATH, draft, expect_error, header, thought

PICTURE = draft(Attachment(artifact_path=PATH, mime="a/b", data=b"picture"))

Mount = Callable[[Path], Path]


@pytest.fixture
def read_only(tmp_path: Path) -> Generator[Mount]:
    """Returns a folder at a place where nothing can be written, not even by root."""
    mounted: list[Path] = []

    def mount(folder: Path) -> Path:
        target = tmp_path / "mnt"
        target.mkdir()
        made = subprocess.run(["mount", "--bind", folder, target], capture_output=True, check=False)
        if made.returncode:
            # Without the right to mount, permissions stop everybody but root.
            if os.geteuid() == 0:
                pytest.skip("root, and mounting is not allowed here")
            target.rmdir()
            for path in (folder, *folder.rglob("*")):
                path.chmod(0o500 if path.is_dir() else 0o400)
            return folder
        mounted.append(target)
        subprocess.run(["mount", "-o", "remount,ro,bind", target], capture_output=True, check=True)
        return target

    yield mount
    for target in mounted:
        subprocess.run(["umount", target], capture_output=True, check=True)
    for path in tmp_path.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)


async def fill(folder: Path, copy: Path | None = None, *, with_index: bool = False) -> None:
    async with await SqliteStore.open(folder) as store:
        await store.append(CONVERSATION, 0, [header(), PICTURE, draft(TurnEnded(reason="completed"))])
        await store.append(CONVERSATION, 3, [thought("newest")])
        if copy:
            await asyncio.to_thread(shutil.copytree, folder, copy)
    if copy and not with_index:
        (copy / "journal.db-shm").unlink()


def run(folder: Path, *arguments: str) -> str:
    result = CliRunner().invoke(main, [*arguments, "--data-dir", str(folder)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("state", ["closed", "killed", "killed, with the log's index"])
def test_commands_that_only_read_accept_a_folder_that_cannot_be_written(
    state: str, tmp_path: Path, read_only: Mount
) -> None:
    killed = tmp_path / "killed" if state != "closed" else None
    asyncio.run(fill(tmp_path / "data", killed, with_index="index" in state))
    folder = read_only(killed or tmp_path / "data")
    assert "entries: 4" in run(folder, "verify")
    assert "newest" in run(folder, "export", "--json")
    assert "calls: 0" in run(folder, "replay", "--verify")
    assert run(folder, "replay", "--cache")
    assert "picture" in run(folder, "inspect", "--json", "2") or "cGljdHVyZQ" in run(folder, "inspect", "--json", "2")


def test_a_store_that_is_open_for_reading_only_says_so(tmp_path: Path, read_only: Mount) -> None:
    asyncio.run(fill(tmp_path / "data"))
    folder = read_only(tmp_path / "data")

    async def use() -> None:
        await expect_error("store_unwritable", SqliteStore.open(folder))
        async with await SqliteStore.open_read_only(folder) as store:
            assert len(await store.load(CONVERSATION)) == 4
            assert await store.read_blob("tenant", ref_of(b"picture")) == b"picture"
            assert (await store.verify()).findings == ()
            await expect_error("store_unwritable", store.append(CONVERSATION, 4, [thought("more")]))
            await expect_error("store_unwritable", store.delete(CONVERSATION))

    asyncio.run(use())


def test_a_folder_of_an_older_version_is_read_without_changing_it(tmp_path: Path, read_only: Mount) -> None:
    golden = Path(__file__).parents[3] / "golden" / "logs" / "v1"
    shutil.copytree(golden, tmp_path / "data")
    folder = read_only(tmp_path / "data")
    assert "all whole" in run(folder, "verify")
    assert run(folder, "export", "--json")


def test_verify_reads_a_folder_that_lost_its_log_and_says_so(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path / "data"))

    async def go_on() -> None:
        async with await SqliteStore.open(tmp_path / "data") as store:
            await store.append(CONVERSATION, 4, [draft(TurnEnded(reason="completed"))])
            await asyncio.to_thread(shutil.copytree, tmp_path / "data", tmp_path / "killed")

    asyncio.run(go_on())
    for name in ("journal.db-wal", "journal.db-shm"):
        (tmp_path / "killed" / name).unlink()
    result = CliRunner().invoke(main, ["verify", "--data-dir", str(tmp_path / "killed")])
    assert result.exit_code == 1
    assert "journal.db-wal was removed" in result.output
    assert "entries 5 to 5" in result.output and "[journal_truncated]" in result.output


def test_a_read_only_folder_with_a_cut_journal_is_checked_to_the_end(tmp_path: Path) -> None:
    async def check() -> bool:
        async with await SqliteStore.open(tmp_path) as store:
            await store.append(CONVERSATION, 0, [header(), *(thought("x" * 9000) for _ in range(20))])
        with (tmp_path / "journal.db").open("r+b") as journal:
            journal.truncate(120_000)
        async with await SqliteStore.open_read_only(tmp_path) as store:
            return "store_damaged" in {one.code for one in (await store.verify()).findings}

    assert asyncio.run(check())
