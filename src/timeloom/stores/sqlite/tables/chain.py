"""Reads and replaces the hash chain beside the entries of a conversation."""

from collections.abc import Iterator

import msgspec

from timeloom.ports.store import StoreError
from timeloom.stores.erasure import Erasure
from timeloom.stores.sqlite.database import Database, convert_rows
from timeloom.stores.sqlite.tables.append_delete import last_place, place_before
from timeloom.stores.sqlite.tables.read_entries import EntryRow
from timeloom.wire.chain import ChainLink, erased_content

_COLUMNS = "salt, before, content"


def has_chain(connection: Database) -> bool:
    """Whether the journal has the columns of the chain; a journal that cannot be migrated may lack them."""
    names = {str(row[0]) for row in connection.execute("SELECT name FROM pragma_table_info('entries')")}
    return "before" in names


def read_links(connection: Database, number: int, after: int = 0, limit: int = -1) -> list[ChainLink]:
    """Return the links of the entries after that seq, in order; a negative limit means all."""
    place = place_before(number)
    columns = _COLUMNS if has_chain(connection) else "NULL, NULL, NULL"
    sql = f"SELECT place - ?, {columns}, record FROM entries WHERE place > ? AND place <= ? ORDER BY place LIMIT ?"
    rows = connection.execute(sql, (place, place + after, last_place(number), limit))
    return [to_link(seq, values) for seq, *values in rows]


def read_rows_with_links(connection: Database, number: int) -> Iterator[tuple[EntryRow, ChainLink | None]]:
    """Return all stored rows in order, each with its link; None for a link whose values have wrong types."""
    place = place_before(number)
    columns = _COLUMNS if has_chain(connection) else "NULL, NULL, NULL"
    sql = f"SELECT place - ?, form, crc, record, {columns} FROM entries WHERE place > ? AND place <= ? ORDER BY place"
    for row in connection.execute(sql, (place, place, last_place(number))):
        try:
            link = to_link(row[0], [*row[4:], row[3]])
        except StoreError:
            link = None
        yield row[:4], link


def read_head(connection: Database, number: int) -> bytes | None:
    """Return the hash of the last entry as the conversation's row has it."""
    if not has_chain(connection):
        return None
    rows = connection.execute("SELECT head FROM conversations WHERE n = ?", (number,)).fetchall()
    return next((head for (head,) in convert_rows(rows, tuple[bytes | None])), None)


def write_erased_links(connection: Database, number: int, erasure: Erasure, old_records: list[bytes]) -> None:
    """Give each erased entry the salt of its new form, and keep the salted hash of its old record."""
    place = place_before(number)
    sql = "UPDATE entries SET salt = ?, content = ? WHERE place = ?"
    for seq, salt, old, new in zip(erasure.seqs, erasure.salts, old_records, erasure.records, strict=True):
        (link,) = read_links(connection, number, seq - 1, 1)
        connection.execute(sql, (salt, erased_content(link, old, new) or None, place | seq))


def to_link(seq: int, values: list[object]) -> ChainLink:
    """Return the link for the columns of a row; raises `StoreError` if they have wrong types."""
    try:
        salt, before, content, record = msgspec.convert(values, tuple[bytes | None, bytes | None, bytes | None, bytes])
    except msgspec.ValidationError as error:
        raise StoreError("entry_damaged", f"the hashes of entry {seq} have wrong types") from error
    return ChainLink(seq, salt or b"", before or b"", content or b"", record)
