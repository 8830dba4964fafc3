"""Keeps the open turn or requested compaction of each conversation in its row and lists conversations with one."""

from collections.abc import Collection

from timeloom.core.blocks import TurnEnded, TurnStarted
from timeloom.core.ids import ConversationId
from timeloom.ports.reader import ConversationInfo, OpenTurnQuery
from timeloom.stores.batch import open_work_after
from timeloom.stores.search_terms import replace_surrogates
from timeloom.stores.sqlite.database import Database, convert_rows
from timeloom.stores.sqlite.tables.entries_by_type import DAMAGE_ERRORS, conversation_numbers, entries_of_type
from timeloom.stores.sqlite.tables.search import INFO_COLUMNS, info_from_row


def read_conversations_with_open_turn(connection: Database, after: str, limit: int) -> list[ConversationId]:
    """Return ids greater than `after` of conversations with an open turn, of all tenants, in order."""
    # The index of all ids would scan every conversation.
    sql = (
        "SELECT id FROM conversations INDEXED BY conversations_open"
        " WHERE open_turn IS NOT NULL AND id > ? ORDER BY id LIMIT ?"
    )
    return [ConversationId(str(row[0])) for row in connection.execute(sql, (replace_surrogates(after), limit))]


def read_page_with_open_turn(connection: Database, query: OpenTurnQuery) -> list[ConversationInfo]:
    """Return the list columns of a project's conversations with an open turn."""
    sql = (
        f"SELECT {INFO_COLUMNS} FROM conversations INDEXED BY conversations_open"
        " WHERE open_turn IS NOT NULL AND id > ? AND tenant = ? AND project = ? AND (? = '' OR user = ?)"
        " ORDER BY id LIMIT ?"
    )
    after, tenant, project, user = map(replace_surrogates, (query.after, query.tenant, query.project, query.user))
    rows = connection.execute(sql, (after, tenant, project, user, user, max(0, query.limit)))
    return [info_from_row(row) for row in rows]


def filter_by_open_turn(connection: Database, conversations: Collection[ConversationId]) -> frozenset[ConversationId]:
    """Return those of the conversations that have an open turn."""
    sql = "SELECT 1 FROM conversations INDEXED BY conversations_open WHERE open_turn IS NOT NULL AND id = ?"
    return frozenset(name for name in conversations if connection.execute(sql, (replace_surrogates(name),)).fetchone())


def read_open_turn(connection: Database, number: int) -> str | None:
    """Return the open work in the row of that conversation, if there is any."""
    sql = "SELECT open_turn FROM conversations WHERE n = ?"
    ((turn,),) = convert_rows(connection.execute(sql, (number,)).fetchall(), tuple[str | None])
    return turn


def write_open_turn(connection: Database, number: int, turn: str | None) -> None:
    """Store the open work of that conversation."""
    connection.execute("UPDATE conversations SET open_turn = ? WHERE n = ?", (turn, number))


def backfill(connection: Database) -> None:
    """Fill the column from conversations that were written before it existed."""
    for number in conversation_numbers(connection):
        try:
            turn = _find_open_turn(connection, number)
        except DAMAGE_ERRORS:
            # A damaged conversation cannot be opened, so its turn cannot be resumed; all others can.
            continue
        if turn is not None:
            write_open_turn(connection, number, turn)


def _find_open_turn(connection: Database, number: int) -> str | None:
    """Return the turn of the newest `TurnStarted` entry, if no `TurnEnded` entry of it follows."""
    first, last = number << 32, (number << 32) | 0xFFFF_FFFF
    for started in entries_of_type(connection, TurnStarted.type_name, first, last, "DESC LIMIT 1"):
        ends = entries_of_type(connection, TurnEnded.type_name, first | started.seq, last)
        return open_work_after(None, (started, *ends))
    return None
