"""The number of the write-ahead log, stored in its first commit, by which a lost log is noticed."""

from timeloom.stores.sqlite.database import Database, convert_rows


def read(connection: Database) -> int:
    """Return the number of the newest log that the journal contains."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'log_number'").fetchone():
        # A journal of an older version that was not migrated, because it is open for reading only.
        return 0
    rows = connection.execute("SELECT n FROM log_number LIMIT 1").fetchall()
    return next((number for (number,) in convert_rows(rows, tuple[int])), 0)


def increase(connection: Database) -> int:
    """Store the next number in the open transaction and return it."""
    number = read(connection) + 1
    connection.execute("UPDATE log_number SET n = ?", (number,))
    return number
