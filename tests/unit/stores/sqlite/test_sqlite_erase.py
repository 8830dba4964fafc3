"""Erased and deleted content leaves no trace in the files of the embedded store."""

import asyncio
from pathlib import Path
from typing import cast

import apsw
import pytest
from msgspec.structs import replace

from tests.harness.erase import SECRET, find_secret
from timeloom.core.blocks import Erased, UserPrompt
from timeloom.core.blocks.redact import redact_block
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.stores.sqlite import SqliteStore
from timeloom.stores.sqlite.database import Database
from timeloom.testing.store_contract.fixtures import draft, header, thought

NAMES = [ConversationId(f"conv_{n}") for n in range(4)]


async def fill(store: SqliteStore) -> None:
    """Conversations written in turns, so that pages split and rows move; the second has the secret."""
    tails = {name: len(await store.append(name, 0, [header()])) for name in NAMES}
    for n in range(400):
        name = NAMES[n % len(NAMES)]
        said = f"{SECRET}{n} " * (n % 50 + 1) if name == NAMES[1] else f"another {n} " * (n % 60 + 1)
        tails[name] = (await store.append(name, tails[name], [draft(UserPrompt(text=said))]))[-1].seq


async def erase_all(store: SqliteStore) -> None:
    entries = await store.load(NAMES[1])
    gone = [replace(entry, block=redact_block(entry.block)) for entry in entries[1:]]
    await store.erase(NAMES[1], len(entries), gone, draft(Erased(by="ann")))


def test_rows_that_moved_leave_no_copies_behind(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await fill(store)
            await erase_all(store)
            await store.scrub()
            assert find_secret(tmp_path) == []
            assert (await store.verify()).findings == ()

    asyncio.run(check())


def test_a_deleted_conversation_leaves_none_either(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await fill(store)
            await store.delete(NAMES[1])
            await store.scrub()
            assert find_secret(tmp_path) == []

    asyncio.run(check())


def test_who_keeps_an_old_state_open_keeps_it_from_being_scrubbed(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path, lock_wait_s=0.05) as store:
            await fill(store)
            reading = cast(Database, apsw.Connection(str(tmp_path / "journal.db")))
            reading.execute("BEGIN")
            reading.execute("SELECT 1 FROM entries").fetchall()
            await erase_all(store)
            with pytest.raises(CodedError, match="another process holds the store; try again"):
                await store.scrub()
            reading.close()
            await store.scrub()
            assert find_secret(tmp_path) == []

    asyncio.run(check())


def test_a_damaged_store_is_not_scrubbed(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await store.append(NAMES[0], 0, [header(), *(thought("x" * 900) for _ in range(200))])
        journal = tmp_path / "journal.db"
        journal.write_bytes(journal.read_bytes()[:120_000])
        async with await SqliteStore.open(tmp_path) as store:
            with pytest.raises(CodedError, match="the store cannot be changed"):
                await store.scrub()

    asyncio.run(check())
