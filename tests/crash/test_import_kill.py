"""An import that is killed at any moment leaves whole conversations and nothing else, and can be repeated."""

import asyncio
import random
import signal
import subprocess
import time
from pathlib import Path

from tests.harness.archive import add_conversation, write_archive
from tests.harness.repository import ROOT, program
from timeloom.stores.sqlite import SqliteStore

CONVERSATIONS = 25
KILLS = 6
IMPORTER = program("tests.crash.importer")


def test_a_killed_import_leaves_whole_conversations_only(tmp_path: Path) -> None:
    source, data, archive = tmp_path / "source", tmp_path / "data", tmp_path / "a.tar"
    archive.write_bytes(asyncio.run(make_archive(source)))
    chance = random.Random(7)
    imported = 0
    for _ in range(KILLS):
        printed = killed_import(archive, data, chance.randint(1, 4), chance.random() / 50)
        stored = asyncio.run(check(source, data))
        assert set(printed) <= set(stored)
        assert len(stored) >= imported
        imported = len(stored)
    with subprocess.Popen([*IMPORTER, str(archive), str(data)], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.communicate()[0].startswith(b"open")
    assert len(asyncio.run(check(source, data))) == CONVERSATIONS
    assert asyncio.run(archive_of(data)) == archive.read_bytes()


async def make_archive(source: Path) -> bytes:
    async with await SqliteStore.open(source) as store:
        for number in range(CONVERSATIONS):
            await add_conversation(store, source, f"conv_{number:02}")
        return await write_archive(store, source)


def killed_import(archive: Path, data: Path, lines: int, then_s: float) -> list[str]:
    """Return the printed conversations of an import that is killed shortly after that many new lines."""
    with subprocess.Popen([*IMPORTER, str(archive), str(data)], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(lines)]
        time.sleep(then_s)
        process.send_signal(signal.SIGKILL)
        printed += process.stdout.readlines()
    return [line.removesuffix("\n") for line in printed[1:] if line.endswith("\n")]


async def check(source: Path, data: Path) -> list[str]:
    """Return the stored conversations, after checking that each is whole and that no file has no conversation."""
    async with await SqliteStore.open(data) as store, await SqliteStore.open(source) as original:
        report = await store.verify()
        assert report.findings == ()
        names = await store.conversation_ids()
        for name in names:
            assert await store.load_chain(name) == await original.load_chain(name)
            here, there = (folder / "workspaces" / name / "turn_1" for folder in (data, source))
            for path in ("files/a.md", "outputs/sub/b.csv"):
                assert (here / path).read_bytes() == (there / path).read_bytes()
        workspaces = data / "workspaces"
        assert {path.name for path in workspaces.iterdir()} == set(names) if workspaces.exists() else not names
        assert not (data / "importing").exists()
        assert list((data / "blobs" / "incoming").iterdir()) == []
    return list(names)


async def archive_of(data: Path) -> bytes:
    async with await SqliteStore.open(data) as store:
        return await write_archive(store, data)
