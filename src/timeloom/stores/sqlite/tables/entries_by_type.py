"""Finds entries of one block type, for migrations that fill new columns and tables of older journals."""

from collections.abc import Iterator
from typing import Final

import apsw
import msgspec

from timeloom.core.timeline import Entry
from timeloom.stores.sqlite.database import Database, convert_rows
from timeloom.wire.record import RecordError, decode_record

DAMAGE_ERRORS: Final = (apsw.CorruptError, UnicodeDecodeError, msgspec.ValidationError, RecordError)
"""Errors that a damaged journal can raise during the search."""


def conversation_numbers(connection: Database) -> Iterator[int]:
    """Return the numbers of all conversations."""
    listed = connection.execute("SELECT n FROM conversations").fetchall()
    return (number for (number,) in convert_rows(listed, tuple[int]))


def entries_of_type(connection: Database, kind: str, after: int, last: int, order: str = "ASC") -> list[Entry]:
    """Return the entries of that type with a place above `after` up to `last`.

    The type is found by the start of the second line of a record.
    """
    sql = (
        "SELECT place, record FROM entries WHERE place > ? AND place <= ?"
        f" AND substr(record, instr(record, x'0a') + 1, ?) = ? ORDER BY place {order}"
    )
    beginning = f'{{"type":"{kind}"'.encode()
    rows = connection.execute(sql, (after, last, len(beginning), beginning)).fetchall()
    return [decode_record(record, place & 0xFFFF_FFFF) for place, record in convert_rows(rows, tuple[int, bytes])]
