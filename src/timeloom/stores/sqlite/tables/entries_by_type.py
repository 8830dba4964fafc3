"""Entries of one type, found by how their records begin; for what older journals did not keep beside them."""

from collections.abc import Iterator
from typing import Final

import apsw
import msgspec

from timeloom.core.timeline import Entry
from timeloom.stores.sqlite.database import Database, typed
from timeloom.wire.record import RecordError, decode_record

DAMAGE: Final = (apsw.CorruptError, UnicodeDecodeError, msgspec.ValidationError, RecordError)
"""What looking for them can meet in a damaged journal."""


def numbers(connection: Database) -> Iterator[int]:
    """The numbers of all conversations."""
    listed = connection.execute("SELECT n FROM conversations").fetchall()
    return (number for (number,) in typed(listed, tuple[int]))


def entries_of_type(connection: Database, kind: str, after: int, last: int, order: str = "ASC") -> list[Entry]:
    """The entries of that type from after the one place to the other; a record's second line begins with it."""
    sql = (
        "SELECT place, record FROM entries WHERE place > ? AND place <= ?"
        f" AND substr(record, instr(record, x'0a') + 1, ?) = ? ORDER BY place {order}"
    )
    beginning = f'{{"type":"{kind}"'.encode()
    rows = connection.execute(sql, (after, last, len(beginning), beginning)).fetchall()
    return [decode_record(record, place & 0xFFFF_FFFF) for place, record in typed(rows, tuple[int, bytes])]
