"""Reads entries of one conversation and checks each row."""

from collections.abc import Iterator

from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.ports.store import StoreError
from timeloom.stores.batch import record_crc
from timeloom.stores.sqlite.database import Database
from timeloom.stores.sqlite.tables.append_delete import last_place, place_before
from timeloom.wire.record import RECORD_VERSION, decode_record

EntryRow = tuple[int, object, object, object]
"""Seq, record format, checksum and record. In a damaged row the values may have other types."""


def read_rows(connection: Database, number: int, after: int = 0, limit: int = -1) -> Iterator[EntryRow]:
    """Return the stored rows after that seq, in order; a negative limit means all."""
    before = place_before(number)
    sql = "SELECT place - ?, form, crc, record FROM entries WHERE place > ? AND place <= ? ORDER BY place LIMIT ?"
    return iter(connection.execute(sql, (before, before + after, last_place(number), limit)))


def read_entries(
    connection: Database, conversation: ConversationId, number: int, after: int, limit: int, tail: int
) -> list[Entry]:
    """Return the entries after that seq up to the tail or the limit.

    Raises `StoreError` if one is missing or damaged.
    """
    entries: list[Entry] = []
    expected = after + 1
    for row in read_rows(connection, number, after, limit):
        if row[0] != expected:
            raise _gap_error(conversation, expected, row[0])
        entries.append(decode_row(conversation, row))
        expected += 1
    if expected <= tail and (limit < 0 or len(entries) < limit):
        raise _gap_error(conversation, expected, tail + 1)
    if entries and entries[-1].seq > tail:
        raise StoreError("store_damaged", f"conversation {conversation} has entries after its tail {tail}")
    return entries


def decode_row(conversation: ConversationId, row: EntryRow) -> Entry:
    """Return the entry of a row; raises a `StoreError` that names the conversation if the row is damaged."""
    seq, form, crc, record = row
    if not (isinstance(form, int) and isinstance(record, bytes)):
        raise _damaged_error(conversation, seq, "its row has values of wrong types")
    if form > RECORD_VERSION:
        raise StoreError(
            "store_format_unknown",
            f"entry {seq} of conversation {conversation} has format {form}, and this timeloom reads up to "
            f"{RECORD_VERSION}; use the version that wrote it, or a newer one",
        )
    if record_crc(conversation, seq, record) != crc:
        raise _damaged_error(conversation, seq, "its checksum does not match")
    try:
        return decode_record(record, seq)
    except CodedError as error:
        raise _damaged_error(conversation, seq, str(error)) from error


def _damaged_error(conversation: ConversationId, seq: int, why: str) -> StoreError:
    return StoreError(
        "entry_damaged", f"entry {seq} of conversation {conversation} is damaged ({why}); earlier entries load"
    )


def _gap_error(conversation: ConversationId, first: int, found: int) -> StoreError:
    return StoreError(
        "seq_gap", f"entries {first} to {found - 1} of conversation {conversation} are missing; earlier entries load"
    )
