"""The appender remembers the rows that it wrote, and notices when they are not the stored ones."""

import asyncio
from pathlib import Path
from typing import cast

import apsw
import pytest

from timeloom.core.blocks import Titled, TurnEnded, TurnStarted
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import Draft
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import StoreError
from timeloom.stores.batch import make_batch
from timeloom.stores.blob_folder import BlobFolder
from timeloom.stores.disk import Disk
from timeloom.stores.process_locks import ProcessLocks
from timeloom.stores.sqlite import SqliteStore, migrations
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.tables import append_delete
from timeloom.stores.sqlite.tables.append_delete import Appender, ConversationRow, make_entry_rows
from timeloom.testing.store_contract.fixtures import CONVERSATION, expect_error, header, thought

TS = "2026-01-01T00:00:00Z"


class TracedJournal:
    """A journal in memory that lists the statements of its appends."""

    def __init__(self, folder: Path) -> None:
        raw = apsw.Connection(":memory:")
        self.connection = cast(Database, raw)
        migrations.migrate(self.connection)
        self.statements: list[str] = []
        raw.exec_trace = self._note
        locks = ProcessLocks(folder / "holders", SystemClock(), RandomIds())
        self.appender = Appender(BlobFolder(folder / "blobs", Disk()), locks, make_entry_rows)

    def append(self, tail: int, *drafts: Draft, name: ConversationId = CONVERSATION) -> ConversationRow:
        self.statements.clear()
        return self.appender.append(self.connection, make_batch(name, tail, drafts), None, None)

    def _note(self, _cursor: object, sql: str, _bindings: object) -> bool:
        self.statements.append(sql.split(" ", maxsplit=1)[0])
        return True


def test_the_next_append_of_a_conversation_reads_no_row(tmp_path: Path) -> None:
    journal = TracedJournal(tmp_path)
    journal.append(0, header())
    assert journal.statements[0] == "SELECT"
    journal.append(1, thought("x"))
    assert journal.statements == ["UPDATE", "INSERT"]
    assert journal.append(2, thought("y"), thought("z")).tail == 4


def test_a_row_whose_change_was_rolled_back_is_read_again(tmp_path: Path) -> None:
    journal = TracedJournal(tmp_path)
    journal.append(0, header())
    journal.connection.execute("BEGIN")
    lost = journal.append(1, thought("lost"))
    journal.connection.execute("ROLLBACK")
    stored = journal.append(1, thought("stored"))
    assert "SELECT" in journal.statements
    assert (stored.tail, lost.tail) == (2, 2) and stored.head != lost.head
    assert journal.append(2, thought("next")).tail == 3


def test_title_and_open_turn_of_a_remembered_row_are_the_stored_ones(tmp_path: Path) -> None:
    journal = TracedJournal(tmp_path)
    turn = TurnId("turn_1")
    journal.append(0, header())
    journal.append(1, Draft(turn, TS, TurnStarted(n=1)))
    assert journal.statements == ["UPDATE", "INSERT"]
    journal.append(2, Draft(turn, TS, Titled(text="Title")), Draft(turn, TS, Titled(text="Title, changed")))
    kept = journal.append(4, thought("x"))
    assert (kept.title_seq, kept.open_turn) == (4, turn)
    sql = "SELECT n, tenant, tail, title_seq, epoch, holder, open_turn, head FROM conversations"
    assert tuple(kept) == journal.connection.execute(sql).fetchone()
    assert journal.append(5, Draft(turn, TS, TurnEnded(reason="completed"))).open_turn is None


def test_a_row_that_cannot_be_updated_is_reported_as_damage(tmp_path: Path) -> None:
    journal = TracedJournal(tmp_path)
    journal.append(0, header())
    journal.connection.execute("CREATE TRIGGER stop BEFORE UPDATE ON conversations BEGIN SELECT RAISE(IGNORE); END")
    with pytest.raises(StoreError, match="timeloom verify") as raised:
        journal.append(1, thought("x"))
    assert raised.value.code == "store_damaged"


def test_an_appender_forgets_rows_when_it_has_many(tmp_path: Path) -> None:
    journal = TracedJournal(tmp_path)
    for n in range(append_delete.WRITTEN_ROWS + 1):
        journal.append(0, header(), name=ConversationId(f"conv_{n}"))
    journal.append(1, thought("x"), name=ConversationId("conv_0"))
    assert "SELECT" in journal.statements


def test_an_append_of_another_store_to_the_same_folder_is_noticed(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as one, await SqliteStore.open(tmp_path) as other:
            await one.append(CONVERSATION, 0, [header()])
            await one.append(CONVERSATION, 1, [thought("one")])
            await other.append(CONVERSATION, 2, [thought("other")])
            await expect_error("conflict", one.append(CONVERSATION, 2, [thought("late")]))
            await one.append(CONVERSATION, 3, [thought("one")])
            assert (await one.verify()).findings == ()

    asyncio.run(attempt())


def test_a_lease_that_another_store_took_is_noticed(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as one, await SqliteStore.open(tmp_path) as other:
            await one.append(CONVERSATION, 0, [header()])
            await one.append(CONVERSATION, 1, [thought("one")])
            lease = await other.acquire(CONVERSATION, "other")
            await expect_error("conversation_held", one.append(CONVERSATION, 2, [thought("late")]))
            await other.append(CONVERSATION, 2, [thought("held")], lease)
            await other.release(lease)
            await expect_error("lease_lost", other.append(CONVERSATION, 3, [thought("late")], lease))
            await one.append(CONVERSATION, 3, [thought("one")])

    asyncio.run(attempt())


def test_a_conversation_that_replaces_a_deleted_one_has_a_row_of_its_own(tmp_path: Path) -> None:
    async def attempt() -> None:
        async with await SqliteStore.open(tmp_path) as one, await SqliteStore.open(tmp_path) as other:
            await one.append(CONVERSATION, 0, [header()])
            await one.append(CONVERSATION, 1, [thought("old")])
            await other.delete(CONVERSATION)
            await other.append(CONVERSATION, 0, [header()])
            await other.append(CONVERSATION, 1, [thought("new")])
            await one.append(CONVERSATION, 2, [thought("newer")])
            assert len(await other.load(CONVERSATION)) == 3
            assert (await one.verify()).findings == ()

    asyncio.run(attempt())
