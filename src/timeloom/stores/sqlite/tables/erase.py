"""Replaces erased records in the journal and removes their traces from its files."""

from typing import cast

import apsw

from timeloom.core.timeline import Entry
from timeloom.ports.leases import Lease
from timeloom.stores.batch import record_crc
from timeloom.stores.erasure import Erasure, check_erased_forms, find_unreferenced_payloads
from timeloom.stores.sqlite.connections import ConnectionPool, to_store_error
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.tables import append_delete, chain, feedback
from timeloom.stores.sqlite.tables.read_entries import decode_row, read_rows


def erase(
    connection: Database, appender: append_delete.Appender, erasure: Erasure, lease: Lease | None
) -> append_delete.ConversationRow:
    """Append the erase, replace the erased entries, and record unreferenced payloads for removal."""
    conversation = erasure.batch.conversation
    append_delete.get_conversation(connection, conversation)
    found = appender.append(connection, erasure.batch, None, lease)
    rows = list(read_rows(connection, found.number))
    entries = [decode_row(conversation, row) for row in rows]
    existing = _entries_at(entries, erasure)
    check_erased_forms(existing, erasure)
    erased_seqs = frozenset(erasure.seqs)
    unreferenced = find_unreferenced_payloads(
        existing, (*erasure.entries, *(entry for entry in entries if entry.seq not in erased_seqs))
    )
    # Overwrites the old records on disk instead of only unlinking them.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    old_records = [cast(bytes, rows[seq - 1][3]) for seq in erasure.seqs]
    chain.write_erased_links(connection, found.number, erasure, old_records)
    _replace_records(connection, found, erasure)
    for ref in unreferenced:
        sha256 = bytes.fromhex(ref.sha256)
        connection.execute("INSERT OR IGNORE INTO doomed VALUES (?, ?)", (found.tenant, sha256))
        connection.execute("DELETE FROM payloads WHERE n = ? AND sha256 = ?", (found.number, sha256))
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    return found


def scrub(connections: ConnectionPool) -> None:
    """Rewrite the database file without deleted data and truncate the write-ahead log.

    Overwriting a row does not reach copies of it in a page from which rows were moved, nor merged segments of the
    search index. A rewritten file has neither.
    """
    try:
        connection = connections.writer()
        try:
            # In memory the copy of the database could use up all memory.
            connection.execute("PRAGMA temp_store = FILE").fetchall()
            append_delete.purge_index(connection)
            connection.execute("VACUUM").fetchall()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            connection.close()
    except apsw.Error as error:
        raise to_store_error(error) from error


def _entries_at(entries: list[Entry], erasure: Erasure) -> list[Entry]:
    return [entries[seq - 1] for seq in erasure.seqs if 1 <= seq <= len(entries)]


def _replace_records(connection: Database, found: append_delete.ConversationRow, erasure: Erasure) -> None:
    before = append_delete.place_before(found.number)
    conversation = erasure.batch.conversation
    for seq, record in zip(erasure.seqs, erasure.records, strict=True):
        crc = record_crc(conversation, seq, record)
        connection.execute("UPDATE entries SET crc = ?, record = ? WHERE place = ?", (crc, record, before | seq))
        if connection.execute("SELECT 1 FROM said_docsize WHERE id = ?", (before | seq,)).fetchone():
            connection.execute("DELETE FROM said WHERE rowid = ?", (before | seq,))
        feedback.delete_entry(connection, found.number, seq)
    title = erasure.erased_title_at(found.title_seq)
    if title is not None:
        sql = "UPDATE conversations SET title = ?, title_seq = 0 WHERE n = ?"
        connection.execute(sql, (title, found.number))
