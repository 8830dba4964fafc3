"""Reads and writes the rows of records and the revisions of their kinds."""

import zlib
from typing import Final

import msgspec

from timeloom.ports.records import (
    EXPIRED_PER_WRITE,
    RecordAddress,
    RecordConflictError,
    RecordPage,
    RecordQuery,
    StoredRecord,
    make_record_cursor,
    parse_record_cursor,
)
from timeloom.ports.store import StoreError
from timeloom.stores.sqlite.database import Database, RowValues, SqlValue, convert_rows

COLUMNS: Final = "kind, tenant, project, user, key, version, expires_us, crc, value"
"""The columns of a row, in the order of `decode_row`."""

_ADDRESS: Final = ("kind", "tenant", "project", "user", "key")
_AT_ADDRESS: Final = "kind = ? AND tenant = ? AND project = ? AND user = ? AND key = ?"
_VISIBLE: Final = "(expires_us IS NULL OR expires_us > ?)"
_RowShape = tuple[str, str, str, str, str, int, int | None, int, bytes]


def find(connection: Database, address: RecordAddress, now_us: int) -> StoredRecord | None:
    """Return the record; None if there is none at that time."""
    if not exists(connection):
        return None
    sql = f"SELECT {COLUMNS} FROM records WHERE {_AT_ADDRESS} AND {_VISIBLE}"
    rows = connection.execute(sql, (*address.sort_key, now_us)).fetchall()
    return next((decode_row(row) for row in rows), None)


def put(connection: Database, record: StoredRecord, expected: int | None, now_us: int) -> int:
    """Store the record at the next version, and remove expired ones if it has an expiry; returns the version."""
    address, expires_us = record.address, record.expires_us
    _check_version(connection, address, expected, now_us)
    version = _next_revision(connection, address.kind)
    stored = msgspec.structs.replace(record, version=version)
    # The old value is overwritten on disk, because it may be a secret that was replaced.
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute(f"DELETE FROM records WHERE {_AT_ADDRESS}", address.sort_key)
    _insert(connection, stored)
    if expires_us is not None:
        connection.execute(
            "DELETE FROM records WHERE n IN (SELECT n FROM records WHERE kind = ? AND expires_us <= ? "
            "ORDER BY expires_us, version LIMIT ?)",
            (address.kind, now_us, EXPIRED_PER_WRITE),
        )
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    return version


def delete(connection: Database, address: RecordAddress, expected: int | None, now_us: int) -> bool:
    """Delete the record at that version, or at any; returns whether there was one."""
    if not _check_version(connection, address, expected, now_us):
        return False
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute(f"DELETE FROM records WHERE {_AT_ADDRESS}", address.sort_key)
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    _next_revision(connection, address.kind)
    return True


def read_record_page(connection: Database, query: RecordQuery, now_us: int) -> RecordPage:
    """Return one page of the matching records."""
    after = parse_record_cursor(query.cursor) if query.cursor else None
    if not exists(connection):
        return RecordPage(())
    conditions, values = _conditions(query)
    if after:
        # Columns that are fixed anyway are left out, so that the index leads to the first row of the page.
        fixed = _count_leading_names(query)
        conditions.append(f"({', '.join(_ADDRESS[fixed:])}) > ({', '.join('?' * (len(_ADDRESS) - fixed))})")
        values += after[fixed:]
    sql = (
        f"SELECT {COLUMNS} FROM records WHERE {' AND '.join((*conditions, _VISIBLE))} "
        f"ORDER BY {', '.join(_ADDRESS)} LIMIT ?"
    )
    rows = connection.execute(sql, (*values, now_us, query.size + 1)).fetchall()
    found = [decode_row(row) for row in rows[: query.size]]
    return RecordPage(tuple(found), make_record_cursor(found[-1].address) if len(rows) > query.size else "")


def erase(connection: Database, query: RecordQuery) -> int:
    """Delete all matching records, whether expired or not, and return their number."""
    conditions, values = _conditions(query)
    where = " AND ".join(conditions)
    kinds = connection.execute(f"SELECT DISTINCT kind FROM records WHERE {where}", values).fetchall()
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute(f"DELETE FROM records WHERE {where}", values)
    count = connection.changes()
    connection.execute("PRAGMA secure_delete = OFF").fetchall()
    for (kind,) in convert_rows(kinds, tuple[str]):
        _next_revision(connection, kind)
    return count


def insert_copy(connection: Database, record: StoredRecord) -> None:
    """Store a record of another journal with its version."""
    _insert(connection, record)
    raise_revision(connection, record.address.kind, record.version)


def raise_revision(connection: Database, kind: str, revision: int) -> None:
    """Make the revision of a kind at least this number."""
    sql = (
        "INSERT INTO record_kinds VALUES (?, ?) "
        "ON CONFLICT(kind) DO UPDATE SET revision = max(revision, excluded.revision)"
    )
    connection.execute(sql, (kind, revision))


def read_revision(connection: Database, kind: str) -> int:
    """Return the number of the newest change of that kind; 0 if there was none."""
    if not exists(connection):
        return 0
    rows = connection.execute("SELECT revision FROM record_kinds WHERE kind = ?", (kind,)).fetchall()
    return next((revision for (revision,) in convert_rows(rows, tuple[int])), 0)


def exists(connection: Database) -> bool:
    """Whether the journal has records; an older one that is open for reading only has none."""
    return bool(connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'records'").fetchone())


def decode_row(row: RowValues) -> StoredRecord:
    """Return the record of a row with `COLUMNS`; raises `StoreError` if its checksum is wrong."""
    kind, tenant, project, user, key, version, expires_us, crc, value = msgspec.convert(row, _RowShape)
    address = RecordAddress(kind=kind, tenant=tenant, project=project, user=user, key=key)
    record = StoredRecord(address, value, version, expires_us)
    if crc != compute_crc(record):
        raise StoreError(
            "store_damaged",
            f"{address.describe()} has a wrong checksum; delete it, or put the data folder back from a backup",
        )
    return record


def compute_crc(record: StoredRecord) -> int:
    """Return the checksum of a record with its address, version and expiry, so that a moved row is detected too."""
    head = msgspec.json.encode((record.address.sort_key, record.version, record.expires_us))
    return zlib.crc32(record.value, zlib.crc32(head))


def _insert(connection: Database, record: StoredRecord) -> None:
    sql = f"INSERT INTO records({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    values = (record.version, record.expires_us, compute_crc(record), record.value)
    connection.execute(sql, (*record.address.sort_key, *values))


def _conditions(query: RecordQuery) -> tuple[list[str], list[SqlValue]]:
    named = {"kind": query.kind or None, "tenant": query.tenant, "project": query.project, "user": query.user}
    conditions = ["1"]
    values: list[SqlValue] = []
    for column, name in named.items():
        if name is not None:
            conditions.append(f"{column} = ?")
            values.append(name)
    if query.prefix:
        conditions.append("key >= ? AND substr(key, 1, ?) = ?")
        values += [query.prefix, len(query.prefix), query.prefix]
        if (end := _end_of_prefix(query.prefix)) is not None:
            conditions.append("key < ?")
            values.append(end)
    return conditions, values


def _count_leading_names(query: RecordQuery) -> int:
    names = (query.kind or None, query.tenant, query.project, query.user)
    return next((count for count, name in enumerate(names) if name is None), len(names))


def _end_of_prefix(prefix: str) -> str | None:
    """Return a text that follows all texts with that prefix; None if there is none."""
    trimmed = prefix.rstrip("\U0010ffff")
    if not trimmed:
        return None
    # U+D800 to U+DFFF have no UTF-8 form.
    following = 0xE000 if trimmed[-1] == "\ud7ff" else ord(trimmed[-1]) + 1
    return trimmed[:-1] + chr(following)


def _check_version(connection: Database, address: RecordAddress, expected: int | None, now_us: int) -> int:
    """Return the current version, 0 without a record; raises `RecordConflictError` if another one was expected."""
    sql = f"SELECT version FROM records WHERE {_AT_ADDRESS} AND {_VISIBLE}"
    rows = connection.execute(sql, (*address.sort_key, now_us)).fetchall()
    found = next((version for (version,) in convert_rows(rows, tuple[int])), 0)
    if expected is not None and expected != found:
        raise RecordConflictError(address, expected, found)
    return found


def _next_revision(connection: Database, kind: str) -> int:
    sql = (
        "INSERT INTO record_kinds VALUES (?, 1) ON CONFLICT(kind) DO UPDATE SET revision = revision + 1 "
        "RETURNING revision"
    )
    ((revision,),) = connection.execute(sql, (kind,)).fetchall()
    return revision
