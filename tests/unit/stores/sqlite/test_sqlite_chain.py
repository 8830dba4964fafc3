"""Changes behind the store's back are found by the hash chain, and heads outside the journal show a cut journal."""

import asyncio
import shutil
from pathlib import Path
from typing import cast

import apsw
import pytest
from msgspec.structs import replace

from tests.harness.journal import UNDO_AFTER_FEEDBACK
from timeloom.core.blocks import AnyBlock, Erased, TurnEnded, TurnStarted, UserPrompt
from timeloom.core.blocks.redact import redact_block
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.store import ChainStart, VerifyReport
from timeloom.stores.batch import record_crc
from timeloom.stores.sqlite import SqliteStore, migrations
from timeloom.stores.sqlite.database import Database
from timeloom.testing.store_contract.fixtures import CONVERSATION, draft, header, thought
from timeloom.wire.chain import hash_content, hash_entry, record_beginning
from timeloom.wire.heads import decode_heads
from timeloom.wire.record import encode_record

TURN, PLACE = TurnId("turn_1"), 1 << 32


def in_turn(block: AnyBlock) -> Draft:
    return Draft(TURN, draft(block).ts, block)


async def fill(folder: Path) -> None:
    async with await SqliteStore.open(folder) as store:
        await store.append(CONVERSATION, 0, [header(), in_turn(TurnStarted(n=1)), in_turn(UserPrompt(text="1234"))])
        await store.append(CONVERSATION, 3, [thought("four"), thought("five")])
        await store.append(CONVERSATION, 5, [in_turn(TurnEnded(reason="completed"))])
        await store.append(CONVERSATION, 6, [thought("seven")])


async def erase(folder: Path, seq: int) -> None:
    async with await SqliteStore.open(folder) as store:
        entries = await store.load(CONVERSATION)
        gone = replace(entries[seq - 1], block=redact_block(entries[seq - 1].block))
        await store.erase(CONVERSATION, len(entries), [gone], draft(Erased(by="somebody")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asyncio.run(fill(tmp_path / "data"))
    return tmp_path / "data"


def execute(folder: Path, sql: str, values: tuple[bytes | int | str, ...] = ()) -> list[tuple[object, ...]]:
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def rewrite(folder: Path, seq: int, block: AnyBlock) -> None:
    """Replace a record, with its checksum, as a person with an SQLite shell could."""
    ((record,),) = execute(folder, "SELECT record FROM entries WHERE place = ?", (PLACE | seq,))
    turn, ts = cast(bytes, record).split(b"\n")[0].decode().split(" ")
    new = encode_record(Draft(TurnId("" if turn == "-" else f"turn_{turn}"), ts, block))
    values = (new, record_crc(CONVERSATION, seq, new), PLACE | seq)
    execute(folder, "UPDATE entries SET record = ?, crc = ? WHERE place = ?", values)


def verify(folder: Path) -> VerifyReport:
    async def check() -> VerifyReport:
        async with await SqliteStore.open(folder) as store:
            return await store.verify()

    return asyncio.run(check())


def problems(folder: Path) -> list[tuple[str, int | None]]:
    return [(finding.code, finding.seq) for finding in verify(folder).findings]


def test_a_folder_that_nobody_touched_has_no_findings(folder: Path) -> None:
    report = verify(folder)
    assert (report.findings, report.late_chains, report.erased) == ((), (), 0)


@pytest.mark.parametrize("seq", [3, 4, 6])
def test_an_edited_entry_is_named(seq: int, folder: Path) -> None:
    blocks: dict[int, AnyBlock] = {3: UserPrompt(text="9999"), 6: TurnEnded(reason="stopped")}
    rewrite(folder, seq, blocks.get(seq, thought("edited").block))
    assert problems(folder)[0] == ("chain_broken", seq)


def test_an_edited_last_entry_is_named(folder: Path) -> None:
    rewrite(folder, 7, thought("edited").block)
    assert problems(folder) == [("chain_broken", 7)]


def test_an_entry_that_was_dropped_and_the_rest_renumbered_is_found(folder: Path) -> None:
    execute(folder, "DELETE FROM entries WHERE place = ?", (PLACE | 4,))
    for seq in (5, 6, 7):
        ((record,),) = execute(folder, "SELECT record FROM entries WHERE place = ?", (PLACE | seq,))
        crc = record_crc(CONVERSATION, seq - 1, cast(bytes, record))
        execute(folder, "UPDATE entries SET place = ?, crc = ? WHERE place = ?", (PLACE | seq - 1, crc, PLACE | seq))
    execute(folder, "UPDATE conversations SET tail = 6")
    assert problems(folder)[0] == ("chain_broken", 3)


def test_entries_in_another_order_are_found(folder: Path) -> None:
    rows = {
        seq: execute(folder, "SELECT record, salt, before FROM entries WHERE place = ?", (PLACE | seq,))[0]
        for seq in (4, 5)
    }
    for seq, other in ((4, 5), (5, 4)):
        record, salt, before = cast(tuple[bytes, bytes, bytes], rows[other])
        values = (record, salt, before, record_crc(CONVERSATION, seq, record), PLACE | seq)
        execute(folder, "UPDATE entries SET record = ?, salt = ?, before = ?, crc = ? WHERE place = ?", values)
    assert problems(folder)[0] == ("chain_broken", 3)


def test_an_edit_with_all_later_hashes_computed_again_is_found_by_the_head(folder: Path) -> None:
    rewrite(folder, 4, thought("edited").block)
    before = b""
    for seq in range(4, 8):
        sql = "SELECT record, salt, before FROM entries WHERE place = ?"
        record, salt, own = cast(tuple[bytes, bytes, bytes], execute(folder, sql, (PLACE | seq,))[0])
        before = before or own
        execute(folder, "UPDATE entries SET before = ? WHERE place = ?", (before, PLACE | seq))
        before = hash_entry(before, hash_content(salt, record), seq, record_beginning(record))
    execute(folder, "UPDATE conversations SET head = ?", (before,))
    assert problems(folder) == [("chain_broken", 6)]


def test_a_journal_that_was_cut_at_its_end_is_found_by_the_head(folder: Path) -> None:
    execute(folder, "DELETE FROM entries WHERE place > ?", (PLACE | 4,))
    ((before,),) = execute(folder, "SELECT record FROM entries WHERE place = ?", (PLACE | 4,))
    last_ts = cast(bytes, before).split(b"\n")[0].split(b" ")[1].decode()
    execute(folder, "UPDATE conversations SET tail = 4, open_turn = 'turn_1', last_ts = ?", (last_ts,))
    assert ("journal_truncated", 5) in problems(folder)


def test_a_conversation_that_is_gone_is_found_by_its_heads(folder: Path) -> None:
    execute(folder, "DELETE FROM entries")
    execute(folder, "DELETE FROM conversations")
    assert ("journal_truncated", 1) in problems(folder)


def test_stripped_hashes_are_found(folder: Path) -> None:
    execute(folder, "UPDATE entries SET salt = NULL, before = NULL WHERE place <= ?", (PLACE | 2,))
    assert problems(folder) == [("chain_broken", 3)]
    execute(folder, "UPDATE entries SET salt = NULL, before = NULL WHERE place = ?", (PLACE | 5,))
    assert ("chain_broken", 5) in problems(folder)


def test_hashes_of_a_wrong_type_are_found(folder: Path) -> None:
    execute(folder, "PRAGMA ignore_check_constraints = 1")
    connection = cast(Database, apsw.Connection(str(folder / "journal.db")))
    connection.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
    sql = "UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'entries'"
    connection.execute(sql).fetchall()
    connection.close()
    execute(folder, "UPDATE entries SET before = 'text' WHERE place = ?", (PLACE | 5,))
    assert ("chain_broken", 5) in problems(folder)


def test_an_erasure_is_told_from_an_edit(folder: Path) -> None:
    asyncio.run(erase(folder, 3))
    report = verify(folder)
    assert (report.findings, report.erased) == ((), 1)
    rewrite(folder, 3, UserPrompt(text="[ERASED] and more", erased=True))
    assert problems(folder) == [("chain_broken", 3)]


def test_an_edit_that_is_made_to_look_like_an_erasure_is_found(folder: Path) -> None:
    sql = "SELECT record, salt FROM entries WHERE place = ?"
    record, salt = cast(tuple[bytes, bytes], execute(folder, sql, (PLACE | 3,))[0])
    content = hash_content(salt, record)
    rewrite(folder, 3, UserPrompt(text="[ERASED]", erased=True))
    execute(folder, "UPDATE entries SET content = ? WHERE place = ?", (content, PLACE | 3))
    assert problems(folder) == [("chain_broken", 3)]


def test_after_an_erase_no_hash_remains_that_could_be_tried_out(folder: Path) -> None:
    """With every salt that is still in the folder, no four-digit number gives a hash that is in the folder."""
    asyncio.run(erase(folder, 3))
    rows = execute(folder, "SELECT salt, before, content, record FROM entries")
    salts = {cast(bytes, row[0]) for row in rows} | {b""}
    files = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    said = in_turn(UserPrompt(text="1234"))
    for salt in salts:
        for text in (encode_record(said), b"1234"):
            digest = hash_content(salt, text)
            assert digest not in files and digest.hex().encode() not in files


def test_an_older_conversation_gets_a_chain_from_its_next_append_on(folder: Path) -> None:
    version = [migration.name for migration in migrations.MIGRATIONS].index("log number")
    execute(
        folder, f"{UNDO_AFTER_FEEDBACK} DELETE FROM migrations WHERE n > {version}; PRAGMA user_version = {version}"
    )
    (folder / "wal.mark").unlink()
    shutil.rmtree(folder / "heads")
    assert verify(folder).late_chains == (ChainStart(CONVERSATION, 0),)

    async def go_on() -> None:
        async with await SqliteStore.open(folder) as store:
            await store.append(CONVERSATION, 7, [thought("eight"), thought("nine")])

    asyncio.run(go_on())
    report = verify(folder)
    assert (report.findings, report.late_chains) == ((), (ChainStart(CONVERSATION, 8),))
    asyncio.run(erase(folder, 3))
    report = verify(folder)
    assert (report.findings, report.erased) == ((), 1)
    rewrite(folder, 3, UserPrompt(text="forged", erased=True))
    rewrite(folder, 8, thought("edited").block)
    assert problems(folder) == [("chain_broken", 3), ("chain_broken", 8)]


def test_the_head_is_written_at_the_end_of_each_turn(folder: Path) -> None:
    (head,) = decode_heads((folder / "heads" / f"{CONVERSATION}.jsonl").read_bytes().splitlines())
    ((before,),) = execute(folder, "SELECT before FROM entries WHERE place = ?", (PLACE | 7,))
    assert (head.conversation, head.seq, head.hash) == (CONVERSATION, 6, cast(bytes, before).hex())


def test_a_line_that_a_crash_cut_is_no_head(folder: Path) -> None:
    path = folder / "heads" / f"{CONVERSATION}.jsonl"
    path.write_bytes(path.read_bytes() + b'{"conversation":"conv_')
    assert verify(folder).findings == ()


def test_a_deleted_conversation_leaves_no_heads(folder: Path) -> None:
    async def delete() -> list[Entry]:
        async with await SqliteStore.open(folder) as store:
            await store.append(ConversationId("conv_other"), 0, [header(), in_turn(TurnEnded(reason="completed"))])
            await store.delete(CONVERSATION)
            return await store.load(ConversationId("conv_other"))

    assert asyncio.run(delete())
    assert [path.name for path in (folder / "heads").iterdir()] == ["conv_other.jsonl"]
    assert verify(folder).findings == ()


def test_a_turn_ends_also_if_its_head_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.joinpath("data").mkdir()
    (tmp_path / "data" / "heads").write_text("in the way")
    asyncio.run(fill(tmp_path / "data"))
    assert verify(tmp_path / "data").entries == 7
    assert f"the head of {CONVERSATION} at entry 6 was not written" in caplog.text


def test_no_name_of_a_conversation_leads_out_of_the_folder(folder: Path) -> None:
    (folder / "precious.jsonl").write_text("precious")

    async def attempt() -> None:
        async with await SqliteStore.open(folder) as store:
            with pytest.raises(ValueError, match="no conversation"):
                await store.delete(ConversationId("../precious"))

    asyncio.run(attempt())
    assert (folder / "precious.jsonl").read_text() == "precious"
