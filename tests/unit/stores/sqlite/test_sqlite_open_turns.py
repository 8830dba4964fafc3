"""The list of open turns in the journal: found by its own index, and known of journals that were written before it."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import apsw
import pytest

from tests.harness.journal import UNDO_AFTER_FEEDBACK
from tests.harness.repository import GOLDEN
from timeloom.core.blocks import AnyBlock, TurnEnded, TurnStarted
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import Draft
from timeloom.runtime.session.load_views import load_views
from timeloom.stores.sqlite import SqliteStore, migrations
from timeloom.stores.sqlite.database import Database
from timeloom.testing.store_contract.fixtures import draft, header, thought

VERSION = [migration.name for migration in migrations.MIGRATIONS].index("open turns")
"""The schema before there was a list."""

OLD = f"""
{UNDO_AFTER_FEEDBACK}
DROP TABLE feedback;
DROP INDEX conversations_open;
ALTER TABLE conversations DROP COLUMN open_turn;
DELETE FROM migrations WHERE n > {VERSION};
PRAGMA user_version = {VERSION};
"""

START, END = TurnStarted(n=1), TurnEnded(reason="completed")


def at(turn: str, block: AnyBlock) -> Draft:
    return Draft(TurnId(turn), draft(block).ts, block)


TURNS = {
    "conv_open": [at("turn_1", START), at("turn_1", END), at("turn_2", START), thought("x" * 40_000)],
    "conv_ended": [at("turn_1", START), at("turn_1", END), at("turn_2", START), thought("x"), at("turn_2", END)],
    "conv_ended_by_another": [at("turn_1", START), at("turn_2", END)],
    "conv_talk": [thought('{"type":"turn.header"')],
}


def test_open_turns_of_an_older_journal_are_found_when_it_is_opened(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    execute(tmp_path, OLD)
    assert asyncio.run(listed(tmp_path)) == ["conv_ended_by_another", "conv_open"]


def test_a_damaged_conversation_of_an_older_journal_hides_no_other(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    execute(tmp_path, OLD)
    damage = """UPDATE entries SET record = CAST('- x' || char(10) || '{"type":"turn.header",' AS BLOB)"""
    execute(tmp_path, f"{damage} WHERE place = (SELECT (n << 32) | 2 FROM conversations WHERE id = 'conv_talk')")
    assert asyncio.run(listed(tmp_path)) == ["conv_ended_by_another", "conv_open"]


def test_the_first_released_journal_lists_the_turns_that_its_views_call_running(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path / "v1") as store:
            names = await store.conversation_ids()
            running = [name for name in names if (await load_views(store, name)).progress.running]
            assert await store.open_turns() == running
            assert (await store.verify()).findings == ()

    shutil.copytree(GOLDEN / "logs" / "v1", tmp_path / "v1")
    asyncio.run(check())


@pytest.mark.parametrize("wrong", ["NULL", "'turn_9'"])
def test_a_row_that_names_another_turn_than_the_entries_is_a_finding(wrong: str, tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    execute(tmp_path, f"UPDATE conversations SET open_turn = {wrong} WHERE id = 'conv_open'")

    async def verify() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            (finding,) = (await store.verify()).findings
            assert (finding.code, finding.conversation) == ("store_damaged", "conv_open")

    asyncio.run(verify())


def test_an_append_that_fails_changes_nothing_of_the_list(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            name = ConversationId("conv_open")
            with pytest.raises(ValueError, match="ends at 5"):
                await store.append(name, 1, [at("turn_2", END)])
            assert name in await store.open_turns()

    asyncio.run(fill(tmp_path))
    asyncio.run(check())


async def fill(folder: Path) -> None:
    async with await SqliteStore.open(folder) as store:
        for name, drafts in TURNS.items():
            await store.append(ConversationId(name), 0, [header(), *drafts])


async def listed(folder: Path) -> Sequence[str]:
    async with await SqliteStore.open(folder) as store:
        found = await store.open_turns()
        for name in found:
            tail = (await store.info(name)).tail
            await store.append(name, tail, [at("turn_3", START), at("turn_3", END)])
        assert await store.open_turns() == []
        return found


def execute(folder: Path, sql: str) -> None:
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    try:
        connection.execute(sql).fetchall()
    finally:
        connection.close()
    # An older version has no mark.
    (folder / "wal.mark").unlink(missing_ok=True)
