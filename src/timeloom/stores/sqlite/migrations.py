"""Creates and upgrades the database schema of the journal in small named migrations."""

from collections.abc import Callable
from typing import Final, NamedTuple, cast

import apsw

from timeloom.ports.store import StoreError
from timeloom.stores.sqlite.database import Database, RowValues
from timeloom.stores.sqlite.tables import feedback, open_turns, spend

APPLICATION_ID: Final = 0x74_6C_6F_6D
"""Marks a database file as a timeloom journal ("tlom")."""


class Migration(NamedTuple):
    """One step from a schema version to the next."""

    name: str
    sql: str
    backfill: Callable[[Database], None] | None = None
    """Fills new columns and tables from existing entries."""


MIGRATIONS: Final = (
    Migration(
        "journal",
        """
        CREATE TABLE conversations(
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            tenant TEXT NOT NULL,
            project TEXT NOT NULL,
            user TEXT NOT NULL,
            bundle TEXT NOT NULL,
            parent TEXT,
            title TEXT NOT NULL,
            title_seq INTEGER NOT NULL,
            started_ts TEXT NOT NULL,
            last_ts TEXT NOT NULL,
            tail INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX conversations_newest ON conversations(tenant, last_ts, id, project, user);

        -- place is n << 32 | seq: the entries of a conversation lie together, in order, without a second index.
        CREATE TABLE entries(
            place INTEGER PRIMARY KEY,
            form INTEGER NOT NULL,
            crc INTEGER NOT NULL,
            record BLOB NOT NULL
        ) STRICT;
        """,
    ),
    Migration(
        "payloads",
        """
        CREATE TABLE payloads(
            n INTEGER NOT NULL,
            sha256 BLOB NOT NULL,
            PRIMARY KEY (n, sha256)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX payloads_users ON payloads(sha256, n);

        -- What a delete has still to remove from the blob folder, if nothing refers to it again.
        CREATE TABLE doomed(
            tenant TEXT NOT NULL,
            sha256 BLOB NOT NULL,
            PRIMARY KEY (tenant, sha256)
        ) STRICT, WITHOUT ROWID;
        """,
    ),
    Migration(
        "search",
        """
        CREATE VIRTUAL TABLE said USING fts5(
            text, content='', contentless_delete=1, detail=none, tokenize='unicode61 remove_diacritics 2'
        );
        """,
    ),
    Migration(
        "leases",
        """
        -- In the row that every append reads and writes; no holder, no lease.
        ALTER TABLE conversations ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE conversations ADD COLUMN holder TEXT NOT NULL DEFAULT '';
        ALTER TABLE conversations ADD COLUMN held_by TEXT NOT NULL DEFAULT '';
        ALTER TABLE conversations ADD COLUMN held_since TEXT NOT NULL DEFAULT '';
        """,
    ),
    Migration(
        "ledger",
        """
        -- What was settled in each scope, and its largest call.
        CREATE TABLE ledger(
            scope TEXT NOT NULL PRIMARY KEY,
            rounds INTEGER NOT NULL,
            tokens INTEGER NOT NULL,
            cost_nano_usd INTEGER NOT NULL,
            tool_calls INTEGER NOT NULL,
            wall_ms INTEGER NOT NULL,
            largest_tokens INTEGER,
            largest_cost_nano_usd INTEGER,
            largest_wall_ms INTEGER
        ) STRICT, WITHOUT ROWID;

        -- Calls in flight, one row per scope that pays. There are few, so they have no second index.
        CREATE TABLE grants(
            scope TEXT NOT NULL,
            key TEXT NOT NULL,
            grant TEXT NOT NULL,
            conversation TEXT NOT NULL,
            rounds INTEGER NOT NULL,
            tokens INTEGER,
            cost_nano_usd INTEGER,
            tool_calls INTEGER NOT NULL,
            wall_ms INTEGER,
            PRIMARY KEY (scope, key)
        ) STRICT, WITHOUT ROWID;
        """,
    ),
    Migration(
        "open turns",
        """
        -- In the row that every append reads and writes: the newest turn until it has ended.
        ALTER TABLE conversations ADD COLUMN open_turn TEXT;
        CREATE INDEX conversations_open ON conversations(id) WHERE open_turn IS NOT NULL;
        """,
        open_turns.backfill,
    ),
    Migration(
        "feedback",
        """
        -- What stands of the feedback on each turn; the words of it are in the entries alone.
        CREATE TABLE feedback(
            n INTEGER NOT NULL,
            turn TEXT NOT NULL,
            seq INTEGER NOT NULL,
            at TEXT NOT NULL,
            said TEXT NOT NULL,
            PRIMARY KEY (n, turn, seq)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX feedback_times ON feedback(at);
        """,
        feedback.backfill,
    ),
    Migration("silent feedback", "", feedback.delete_empty_machine_feedback),
    Migration(
        "log number",
        """
        -- The number of the newest write-ahead log that has a commit; wal.mark has the same one.
        CREATE TABLE log_number(n INTEGER NOT NULL) STRICT;
        INSERT INTO log_number VALUES (0);
        """,
    ),
    Migration(
        "hash chain",
        """
        -- Beside each record: its salt, the hash of the entry before it, and the salted hash of an erased record.
        ALTER TABLE entries ADD COLUMN salt BLOB;
        ALTER TABLE entries ADD COLUMN before BLOB;
        ALTER TABLE entries ADD COLUMN content BLOB;
        -- The hash of the last entry, in the row that every append reads and writes.
        ALTER TABLE conversations ADD COLUMN head BLOB;
        """,
    ),
    Migration(
        "records",
        """
        CREATE TABLE records(
            n INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            tenant TEXT NOT NULL,
            project TEXT NOT NULL,
            user TEXT NOT NULL,
            key TEXT NOT NULL,
            version INTEGER NOT NULL,
            expires_us INTEGER,
            crc INTEGER NOT NULL,
            value BLOB NOT NULL,
            UNIQUE (kind, tenant, project, user, key)
        ) STRICT;
        CREATE INDEX records_owners ON records(tenant, user);
        CREATE INDEX records_expiry ON records(kind, expires_us) WHERE expires_us IS NOT NULL;

        -- The newest version of each kind. It outlives the records, so that no version is used twice.
        CREATE TABLE record_kinds(
            kind TEXT NOT NULL PRIMARY KEY,
            revision INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """,
    ),
    Migration(
        "spend",
        """
        -- What model calls cost. Calls of deleted conversations have no conversation.
        CREATE TABLE spend(
            tenant TEXT NOT NULL,
            project TEXT NOT NULL,
            day TEXT NOT NULL,
            user TEXT NOT NULL,
            model TEXT NOT NULL,
            conversation TEXT NOT NULL,
            calls INTEGER NOT NULL,
            unknown_costs INTEGER NOT NULL,
            input_tokens INTEGER NOT NULL,
            cache_read_tokens INTEGER NOT NULL,
            cache_write_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            cost_nano_usd INTEGER NOT NULL,
            PRIMARY KEY (tenant, project, day, user, model, conversation)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX spend_conversations ON spend(conversation);
        """,
        spend.backfill,
    ),
)
"""In order. A released migration is never changed; new ones are added at the end."""


def read_version(connection: Database) -> int:
    """Return how many migrations were applied.

    Raises `StoreError` if the database belongs to another program or has a newer schema.
    """
    application_id, version, tables = _read_identity(connection)
    if application_id != APPLICATION_ID and (application_id or version or tables):
        raise StoreError("store_format_unknown", "journal.db belongs to another program; choose another data folder")
    if version > len(MIGRATIONS):
        raise StoreError(
            "store_format_unknown",
            f"the journal has format {version}, and this timeloom reads up to {len(MIGRATIONS)}; "
            "use the version that wrote it, or a newer one",
        )
    return version


def migrate(connection: Database, version: int | None = None) -> None:
    """Migrate to that version or the newest one. Each migration and its record share one transaction."""
    wanted = len(MIGRATIONS) if version is None else version
    while read_version(connection) < wanted:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _apply_next(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def read_schema(connection: Database) -> frozenset[RowValues]:
    """Return the schema of all tables and indexes, except those that FTS5 creates itself."""
    sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE substr(name, 1, 5) <> 'said_'"
    return frozenset(connection.execute(sql).fetchall())


def expected_schema(version: int) -> frozenset[RowValues]:
    """Return the schema that a database of that version must have."""
    fresh = cast(Database, apsw.Connection(":memory:"))
    try:
        migrate(fresh, version)
        return read_schema(fresh)
    finally:
        fresh.close()


def rewrite_version(connection: Database) -> None:
    """Write the version that is already there: it reaches the disk like any change, and changes nothing."""
    version = _read_number(connection, "PRAGMA user_version")
    _run(connection, f"PRAGMA user_version = {version}")


def _apply_next(connection: Database) -> None:
    # Read again under the lock, because another process may have migrated meanwhile.
    version = read_version(connection)
    if version == len(MIGRATIONS):
        return
    step = MIGRATIONS[version]
    if version == 0:
        _run(connection, "CREATE TABLE migrations(n INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT")
        _run(connection, f"PRAGMA application_id = {APPLICATION_ID}")
    _run(connection, step.sql)
    if step.backfill:
        step.backfill(connection)
    connection.execute("INSERT INTO migrations VALUES (?, ?)", (version + 1, step.name))
    _run(connection, f"PRAGMA user_version = {version + 1}")


def _read_identity(connection: Database) -> tuple[int, int, int]:
    """Return application id, version and number of tables in one read, because another process may be migrating."""
    owns_transaction = not connection.in_transaction
    if owns_transaction:
        connection.execute("BEGIN")
    try:
        # The pragmas come from a page that SQLite reads again only when a transaction starts to read.
        tables = _read_number(connection, "SELECT count(*) FROM sqlite_schema")
        return (
            _read_number(connection, "PRAGMA application_id"),
            _read_number(connection, "PRAGMA user_version"),
            tables,
        )
    finally:
        if owns_transaction:
            connection.execute("COMMIT")


def _run(connection: Database, sql: str) -> None:
    # A cursor stops before the next statement until more rows are fetched.
    connection.execute(sql).fetchall()


def _read_number(connection: Database, sql: str) -> int:
    ((number,),) = connection.execute(sql).fetchall()
    return number
