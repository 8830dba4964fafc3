"""Data folders of every format that was ever written load for ever, and as the same entries."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.golden.make_log import list_entries
from timeloom.core.blocks import BLOCK_CLASSES
from timeloom.ports.reader import ConversationQuery
from timeloom.ports.store import VerifyReport
from timeloom.stores.sqlite import SqliteStore

FOLDERS = sorted(path for path in (Path(__file__).parent / "logs").iterdir() if path.is_dir())


def test_there_is_a_golden_log() -> None:
    assert [folder.name for folder in FOLDERS] == ["v1", "v2"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_old_log_loads_as_what_was_stored(folder: Path, tmp_path: Path) -> None:
    async def load() -> tuple[VerifyReport, list[bytes]]:
        async with await SqliteStore.open(tmp_path / "data", create=False) as store:
            return await store.verify(), [line async for line in list_entries(store)]

    shutil.copytree(folder, tmp_path / "data")
    verified, lines = asyncio.run(load())
    assert verified.findings == ()
    assert verified.orphans == 0
    assert lines == folder.with_suffix(".jsonl").read_bytes().splitlines()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_an_old_log_can_be_searched_and_goes_on(folder: Path, tmp_path: Path) -> None:
    async def use() -> None:
        async with await SqliteStore.open(tmp_path / "data") as store:
            page = await store.conversations(ConversationQuery(tenant="../Été", words="unicode large"))
            (info,) = page.conversations
            (last,) = await store.load(info.id, info.tail - 1)
            await store.append(info.id, info.tail, [last])
            assert (await store.verify()).findings == ()

    shutil.copytree(folder, tmp_path / "data")
    asyncio.run(use())


def test_the_newest_golden_log_has_every_block_type(tmp_path: Path) -> None:
    async def classes() -> set[type]:
        async with await SqliteStore.open(tmp_path / "data") as store:
            return {type(entry.block) for name in await store.conversation_ids() for entry in await store.load(name)}

    shutil.copytree(FOLDERS[-1], tmp_path / "data")
    assert asyncio.run(classes()) == set(BLOCK_CLASSES)
