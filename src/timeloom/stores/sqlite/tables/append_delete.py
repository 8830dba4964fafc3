"""Appends to and deletes conversations of the journal, inside the transaction of the writer."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.blobs import BlobError
from timeloom.ports.journal import ConflictError
from timeloom.ports.leases import Lease
from timeloom.ports.reader import ConversationUnknownError
from timeloom.ports.store import StoreError
from timeloom.stores.batch import SALTS, TITLE_CHARS, Batch, open_work_after, record_crc
from timeloom.stores.blob_folder import BlobFolder, StagedPayloads
from timeloom.stores.feedback_rows import extract_batch_feedback
from timeloom.stores.process_locks import ProcessLocks
from timeloom.stores.search_terms import replace_surrogates
from timeloom.stores.spend_rows import extract_batch_costs
from timeloom.stores.sqlite.database import Database, convert_rows
from timeloom.stores.sqlite.tables import feedback, leases, ledger_sql, spend
from timeloom.wire.chain import hash_before_first, link_entry
from timeloom.wire.record import RECORD_VERSION

WRITTEN_ROWS: Final = 1000
"""Rows that an `Appender` remembers. With fewer, many conversations at once read their rows again."""

EntryRow = tuple[int, int, int, bytes, bytes | None, bytes | None]
"""Place, form, checksum, record, salt, and the hash of the entry before it."""

EntryRows = tuple[Sequence[EntryRow], bytes | None]
"""The rows of new entries, and the hash of the last one."""

MakeEntryRows = Callable[[int, bytes | None, Batch], EntryRows]
"""The type of `make_entry_rows`."""


class ConversationRow(NamedTuple):
    """The columns of a conversation's row that appends, deletes and reads need."""

    number: int
    tenant: str
    tail: int
    title_seq: int
    epoch: int = 0
    holder: str = ""
    open_turn: str | None = None
    """The open turn and the requested compaction, as `open_work_after` returns them."""
    head: bytes | None = None
    """The hash of the last entry; None in a conversation without a hash chain."""


def place_before(number: int) -> int:
    """Return the place before the first entry of that conversation. Entry `seq` is at this place plus `seq`."""
    return number << 32


def last_place(number: int) -> int:
    """Return the last place that an entry of the conversation can have."""
    return (number << 32) | 0xFFFF_FFFF


def find_conversation(connection: Database, conversation: ConversationId) -> ConversationRow | None:
    """Return the row of the conversation, without lease and open turn; None if it does not exist."""
    sql = "SELECT n, tenant, tail, title_seq FROM conversations WHERE id = ?"
    row = connection.execute(sql, (replace_surrogates(conversation),)).fetchone()
    return msgspec.convert(row, ConversationRow) if row else None


def get_conversation(connection: Database, conversation: ConversationId) -> ConversationRow:
    """Return the row of the conversation; raises `ConversationUnknownError`."""
    found = find_conversation(connection, conversation)
    if not found:
        raise ConversationUnknownError(conversation)
    return found


def make_entry_rows(number: int, head: bytes | None, batch: Batch) -> EntryRows:
    """Return the rows that continue the chain of that conversation; `head` is None if it has no chain yet."""
    conversation, seq = batch.conversation, batch.expected_tail + 1
    before = head or hash_before_first(conversation, seq)
    rows: list[EntryRow] = []
    for record in batch.records:
        salt = SALTS.take()
        crc = record_crc(conversation, seq, record)
        rows.append((place_before(number) | seq, RECORD_VERSION, crc, record, salt, before))
        before = link_entry(before, salt, seq, record)
        seq += 1
    return rows, before


class Appender:
    """Appends batches, and remembers the rows that it wrote, so that the next append of a conversation reads none."""

    def __init__(self, blobs: BlobFolder, locks: ProcessLocks, make_rows: MakeEntryRows) -> None:
        self._blobs = blobs
        self._locks = locks
        self._make_rows = make_rows
        self._written: dict[ConversationId, ConversationRow] = {}
        """Rows as the last append left them. Others may have changed them since, or the commit may have failed."""

    def append(
        self, connection: Database, batch: Batch, staged: StagedPayloads | None, lease: Lease | None
    ) -> ConversationRow:
        """Append the batch and return the row of its conversation as it is then.

        Raises `ConflictError` if the tail is not the expected one. Raises `ConversationHeldError` or `LeaseLostError`
        if the lease does not allow the append.
        """
        written = self._written.get(batch.conversation)
        appended = None
        if written and written.tail == batch.expected_tail and self._is_allowed(written, lease):
            appended = self._append_to(connection, written, batch, staged)
        if not appended:
            found = self._read_row(connection, batch, lease) or create_row(connection, batch)
            appended = self._append_to(connection, found, batch, staged)
        if not appended:
            raise StoreError(
                "store_damaged",
                f"conversation {batch.conversation} has a row in journal.db that cannot be updated; "
                "run `timeloom verify`",
            )
        if len(self._written) >= WRITTEN_ROWS:
            self._written.clear()
        self._written[batch.conversation] = appended
        return appended

    def _read_row(self, connection: Database, batch: Batch, lease: Lease | None) -> ConversationRow | None:
        """Return the row of the conversation, if it exists; raises if the batch must not be appended."""
        found = _find_with_lease(connection, batch.conversation)
        if not self._is_allowed(found, lease):
            leases.check_lease(connection, self._locks, batch.conversation, lease)
            # The check has ended the lease of a dead holder.
            found = _find_with_lease(connection, batch.conversation)
        tail = found.tail if found else 0
        if tail != batch.expected_tail:
            raise ConflictError(batch.conversation, batch.expected_tail, tail)
        return found

    def _is_allowed(self, found: ConversationRow | None, lease: Lease | None) -> bool:
        """Whether the lease allows an append for certain. If not, `check_lease` looks more closely."""
        if not lease:
            return not (found and found.holder)
        return found is not None and found.epoch == lease.epoch and self._locks.is_own(found.holder)

    def _append_to(
        self, connection: Database, found: ConversationRow, batch: Batch, staged: StagedPayloads | None
    ) -> ConversationRow | None:
        """Append the batch if the stored row is the given one; otherwise change nothing and return None."""
        rows, head = self._make_rows(found.number, found.head, batch)
        appended = found._replace(tail=batch.tail, head=head)
        if not batch.is_plain:
            appended = appended._replace(open_turn=open_work_after(found.open_turn, batch.entries))
        if not _update_row(connection, found, appended, batch.last_ts):
            return None
        sql = "INSERT INTO entries(place, form, crc, record, salt, before) VALUES (?, ?, ?, ?, ?, ?)"
        if len(rows) == 1:
            connection.execute(sql, rows[0])
        else:
            connection.executemany(sql, rows)
        if batch.references:
            store_payloads(connection, self._blobs, found, batch, staged)
        return appended if batch.is_plain else store_notes(connection, appended, batch)


def delete(connection: Database, conversation: ConversationId) -> ConversationRow:
    """Delete the conversation and record its payloads as candidates for removal."""
    found = get_conversation(connection, conversation)
    span = (place_before(found.number), last_place(found.number))
    # Overwrites deleted text on disk. If it were always on, merges of the search index would be slower.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    sql = "INSERT OR IGNORE INTO doomed SELECT ?, sha256 FROM payloads WHERE n = ?"
    connection.execute(sql, (found.tenant, found.number))
    connection.execute("DELETE FROM payloads WHERE n = ?", (found.number,))
    # One row at a time: with a range FTS5 would scan the rows of all conversations.
    indexed = connection.execute("SELECT id FROM said_docsize WHERE id BETWEEN ? AND ?", span).fetchall()
    connection.executemany("DELETE FROM said WHERE rowid = ?", indexed)
    connection.execute("DELETE FROM entries WHERE place BETWEEN ? AND ?", span)
    feedback.delete_conversation(connection, found.number)
    spend.forget_conversation(connection, conversation)
    connection.execute("DELETE FROM conversations WHERE n = ?", (found.number,))
    ledger_sql.delete_conversation(connection, conversation)
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    return found


def purge_index(connection: Database) -> None:
    """Rewrite the search index, which keeps words of deleted text until its segments are merged."""
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute("INSERT INTO said(said) VALUES ('optimize')")


def remove_unused_payloads(connection: Database, blobs: BlobFolder) -> None:
    """Remove the recorded payloads to which no entry refers.

    Runs in a separate transaction, after the one that made them unused is durable. So a crash in between leaves unused
    files, but never an entry without its payload. Appends hold the same lock when they check for a payload.
    """
    doomed = connection.execute("SELECT tenant, sha256 FROM doomed").fetchall()
    listed = convert_rows(doomed, tuple[str, bytes])
    blobs.remove(
        [(tenant, sha256.hex()) for tenant, sha256 in listed if not is_payload_used(connection, tenant, sha256)]
    )
    connection.execute("DELETE FROM doomed")


def is_payload_used(connection: Database, tenant: str, sha256: bytes) -> bool:
    """Whether an entry of that tenant refers to the payload."""
    sql = "SELECT 1 FROM payloads JOIN conversations USING (n) WHERE sha256 = ? AND tenant = ? LIMIT 1"
    return connection.execute(sql, (sha256, tenant)).fetchone() is not None


def _find_with_lease(connection: Database, conversation: ConversationId) -> ConversationRow | None:
    sql = "SELECT n, tenant, tail, title_seq, epoch, holder, open_turn, head FROM conversations WHERE id = ?"
    row = connection.execute(sql, (conversation,)).fetchone()
    return msgspec.convert(row, ConversationRow) if row else None


def create_row(connection: Database, batch: Batch) -> ConversationRow:
    """Insert the row of a new conversation, without entries, and return it."""
    header = batch.header
    assert header is not None
    sql = (
        "INSERT INTO conversations(id, tenant, project, user, bundle, parent, started_ts, title, title_seq, last_ts,"
        " tail) VALUES (?, ?, ?, ?, ?, ?, ?, '', 0, '', 0)"
    )
    started_ts = batch.entries[0].ts
    connection.execute(
        sql,
        (batch.conversation, header.tenant, header.project, header.user, header.bundle, header.parent, started_ts),
    )
    return ConversationRow(connection.last_insert_rowid(), header.tenant, 0, 0)


def _update_row(connection: Database, found: ConversationRow, appended: ConversationRow, last_ts: str) -> bool:
    """Update the row and return True if it is the found one: no append and no change of its lease came in between."""
    number, _, tail, _, epoch, holder, open_turn, head = found
    where = (number, tail, head, epoch, holder)
    if appended.open_turn == open_turn:
        sql = (
            "UPDATE conversations SET tail = ?, last_ts = ?, head = ?"
            " WHERE n = ? AND tail = ? AND head IS ? AND epoch = ? AND holder = ?"
        )
        connection.execute(sql, (appended.tail, last_ts, appended.head, *where))
    else:
        # A separate statement, because one that sets the open turn writes to its index, too.
        sql = (
            "UPDATE conversations SET tail = ?, last_ts = ?, head = ?, open_turn = ?"
            " WHERE n = ? AND tail = ? AND head IS ? AND epoch = ? AND holder = ?"
        )
        connection.execute(sql, (appended.tail, last_ts, appended.head, appended.open_turn, *where))
    return connection.changes() == 1


def store_notes(connection: Database, appended: ConversationRow, batch: Batch) -> ConversationRow:
    """Store the text to index, the title, the feedback and the costs of the batch, and return the row."""
    _index_text(connection, appended, batch)
    if feedback_rows := extract_batch_feedback(batch):
        feedback.record_feedback(connection, appended.number, feedback_rows)
    if costs := extract_batch_costs(batch):
        spend.record_costs(connection, appended.number, costs)
    if not batch.title:
        return appended
    title_seq, title = batch.title
    sql = "UPDATE conversations SET title = ?, title_seq = ? WHERE n = ?"
    connection.execute(sql, (title[:TITLE_CHARS], title_seq, appended.number))
    return appended._replace(title_seq=title_seq)


def store_payloads(
    connection: Database, blobs: BlobFolder, found: ConversationRow, batch: Batch, staged: StagedPayloads | None
) -> None:
    """Publish the payloads of the batch that its tenant does not have, and store its references."""
    for ref in batch.references:
        # A file without references may come from an append that crashed before it was durable.
        if blobs.has(found.tenant, ref) and is_payload_used(connection, found.tenant, bytes.fromhex(ref.sha256)):
            continue
        data, path = batch.payloads.get(ref), staged.get(ref) if staged else None
        if data is None and path is None:
            raise BlobError(
                "blob_missing",
                f"conversation {batch.conversation} cannot refer to payload {ref.sha256[:64]!r} "
                f"of {ref.size_bytes} bytes: its tenant has not stored it",
            )
        blobs.publish(found.tenant, ref, data, path)
    rows: Sequence[tuple[int, bytes]] = [(found.number, bytes.fromhex(ref.sha256)) for ref in batch.references]
    connection.executemany("INSERT OR IGNORE INTO payloads VALUES (?, ?)", rows)


def _index_text(connection: Database, found: ConversationRow, batch: Batch) -> None:
    before = place_before(found.number)
    rows = [(before | seq, text) for seq, text in batch.searchable_texts]
    if batch.title:
        if found.title_seq:
            connection.execute("DELETE FROM said WHERE rowid = ?", (before | found.title_seq,))
        title_seq, title = batch.title
        rows.append((before | title_seq, title))
    if rows:
        connection.executemany("INSERT INTO said(rowid, text) VALUES (?, ?)", rows)
