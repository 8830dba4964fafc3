"""Feedback in the journal: counted by its own table, also in journals that were written before there was one."""

import asyncio
from pathlib import Path
from typing import cast

import apsw

from tests.harness.journal import UNDO_AFTER_FEEDBACK
from timeloom.core.blocks import ConversationStarted, Feedback, ForkPoint
from timeloom.core.blocks.user import Reaction
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.core.view.feedback import FeedbackCounts
from timeloom.ports.feedback import FeedbackQuery
from timeloom.stores.sqlite import SqliteStore, migrations
from timeloom.stores.sqlite.database import Database
from timeloom.testing.store_contract.fixtures import draft, header, thought

VERSION = [migration.name for migration in migrations.MIGRATIONS].index("feedback")

OLD = f"""
{UNDO_AFTER_FEEDBACK}
DROP TABLE feedback;
DELETE FROM migrations WHERE n > {VERSION};
PRAGMA user_version = {VERSION};
"""

ONE, TWO = ConversationId("conv_1"), ConversationId("conv_2")


def said(reaction: Reaction | None) -> Draft:
    block = Feedback(origin="user", reaction=reaction)
    return Draft(TurnId("turn_1"), draft(block).ts, block)


def machine() -> Draft:
    block = Feedback(origin="machine", confidence=0.5)
    return Draft(TurnId("turn_1"), draft(block).ts, block)


async def fill(folder: Path) -> None:
    forked = ConversationStarted(tenant="tenant", project="p", user="u", forked_from=ForkPoint(ONE, 3))
    async with await SqliteStore.open(folder) as store:
        await store.append(ONE, 0, [header(), thought('{"type":"turn.feedback"'), said("not_ok"), said("ok")])
        await store.append(TWO, 0, [Draft(NO_TURN, header().ts, forked), thought("x"), said("not_ok")])
        await store.append(ConversationId("conv_3"), 0, [header(), thought("x")])


async def counts(folder: Path) -> FeedbackCounts:
    async with await SqliteStore.open(folder) as store:
        assert (await store.verify()).findings == ()
        return (await store.list_feedback(FeedbackQuery(tenant="tenant"))).total


def execute(folder: Path, sql: str) -> None:
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    try:
        connection.execute(sql).fetchall()
    finally:
        connection.close()
    # An older version has no mark.
    (folder / "wal.mark").unlink(missing_ok=True)


def test_feedback_of_an_older_journal_is_counted_when_it_is_opened(tmp_path: Path) -> None:
    asyncio.run(fill(tmp_path))
    execute(tmp_path, OLD)
    assert asyncio.run(counts(tmp_path)) == FeedbackCounts(ok=1)


def test_what_an_older_version_counted_of_silent_machines_is_counted_no_more(tmp_path: Path) -> None:
    async def told() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            block = Feedback(origin="machine")
            await store.append(ONE, 4, [Draft(TurnId("turn_1"), draft(block).ts, block), machine(), machine()])

    asyncio.run(fill(tmp_path))
    asyncio.run(told())
    version = [migration.name for migration in migrations.MIGRATIONS].index("silent feedback")
    execute(tmp_path, "INSERT INTO feedback SELECT n, turn, 5, at, 'machine' FROM feedback WHERE seq = 4")
    execute(
        tmp_path, f"{UNDO_AFTER_FEEDBACK} DELETE FROM migrations WHERE n > {version}; PRAGMA user_version = {version}"
    )
    assert asyncio.run(counts(tmp_path)) == FeedbackCounts(ok=1, machine=2)


def test_a_damaged_entry_of_an_older_journal_stays_counted(tmp_path: Path) -> None:
    async def told() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            await store.append(ONE, 4, [machine(), machine()])

    async def total() -> FeedbackCounts:
        async with await SqliteStore.open(tmp_path) as store:
            return (await store.list_feedback(FeedbackQuery(tenant="tenant"))).total

    asyncio.run(fill(tmp_path))
    asyncio.run(told())
    version = [migration.name for migration in migrations.MIGRATIONS].index("silent feedback")
    damage = "UPDATE entries SET record = CAST(substr(CAST(record AS TEXT), 1, length(record) - 9) AS BLOB)"
    execute(tmp_path, f"{damage} WHERE place = (1 << 32 | 5)")
    execute(
        tmp_path, f"{UNDO_AFTER_FEEDBACK} DELETE FROM migrations WHERE n > {version}; PRAGMA user_version = {version}"
    )
    assert asyncio.run(total()) == FeedbackCounts(ok=1, machine=2)


def test_a_table_that_says_otherwise_than_the_entries_is_a_finding(tmp_path: Path) -> None:
    async def verify() -> None:
        async with await SqliteStore.open(tmp_path) as store:
            (finding,) = (await store.verify()).findings
            assert (finding.code, finding.conversation) == ("store_damaged", "conv_1")

    asyncio.run(fill(tmp_path))
    execute(tmp_path, "UPDATE feedback SET said = 'neutral'")
    asyncio.run(verify())


def test_a_damaged_conversation_of_an_older_journal_leaves_the_others_counted(tmp_path: Path) -> None:
    async def total() -> FeedbackCounts:
        async with await SqliteStore.open(tmp_path) as store:
            await store.append(TWO, 3, [said("neutral")])
            return (await store.list_feedback(FeedbackQuery(tenant="tenant"))).total

    asyncio.run(fill(tmp_path))
    execute(tmp_path, OLD)
    damage = """UPDATE entries SET record = CAST('- x' || char(10) || '{"type":"turn.feedback",' AS BLOB)"""
    execute(tmp_path, f"{damage} WHERE place = (SELECT (n << 32) | 3 FROM conversations WHERE id = 'conv_1')")
    assert asyncio.run(total()) == FeedbackCounts(neutral=1)
