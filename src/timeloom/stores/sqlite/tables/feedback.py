"""Keeps the valid feedback of each turn in a separate table, so that queries read no entries."""

from collections.abc import Iterable

import msgspec

from timeloom.core.blocks import ConversationStarted, Feedback
from timeloom.core.view.feedback import FeedbackCounts
from timeloom.ports.feedback import FeedbackPage, FeedbackQuery, JudgedConversation
from timeloom.stores.feedback_rows import Judgement, copied_by, judgements_in, sortable
from timeloom.stores.search_terms import cursor_at, page_size, read_cursor, storable
from timeloom.stores.sqlite.database import Database, Values, typed
from timeloom.stores.sqlite.tables.entries_by_type import DAMAGE, entries_of_type, numbers
from timeloom.stores.sqlite.tables.search import COLUMNS, info_of

_COUNTS = "sum(said = 'ok'), sum(said = 'not_ok'), sum(said = 'neutral'), sum(said = 'machine')"


def note(connection: Database, number: int, judgements: Iterable[Judgement]) -> None:
    """Insert feedback on turns of that conversation, and delete the rows that it replaces."""
    for one in judgements:
        if one.replaces:
            sql = "DELETE FROM feedback WHERE n = ? AND turn = ? AND said <> 'machine'"
            connection.execute(sql, (number, one.turn))
        if one.said != "nothing":
            connection.execute(
                "INSERT INTO feedback(n, turn, seq, at, said) VALUES (?, ?, ?, ?, ?)",
                (number, one.turn, one.seq, one.at, one.said),
            )


def forget(connection: Database, number: int) -> None:
    """Delete all feedback of a conversation."""
    connection.execute("DELETE FROM feedback WHERE n = ?", (number,))


def forget_one(connection: Database, number: int, seq: int) -> None:
    """Delete the feedback of one erased entry."""
    connection.execute("DELETE FROM feedback WHERE n = ? AND seq = ?", (number, seq))


def listed(connection: Database, number: int) -> dict[int, str]:
    """Return the kinds of the stored feedback of that conversation, by seq."""
    rows = connection.execute("SELECT seq, said FROM feedback WHERE n = ?", (number,)).fetchall()
    return dict(typed(rows, tuple[int, str]))


def read_judged(connection: Database, query: FeedbackQuery) -> FeedbackPage:
    """Return one page of the matching conversations, and the feedback counts of all of them."""
    size = page_size(query.limit)
    where, values = _matching(query)
    given = (
        f"SELECT n, max(at) AS last_at, {_COUNTS} FROM feedback JOIN conversations USING (n) WHERE {where} GROUP BY n"
    )
    columns = f"{COLUMNS}, judged.*"
    sql = f"SELECT {columns} FROM ({given}) AS judged JOIN conversations USING (n)"
    bindings = [*values]
    if query.cursor:
        sql += " WHERE (last_at, id) < (?, ?)"
        bindings += read_cursor(query.cursor)
    rows = connection.execute(f"{sql} ORDER BY last_at DESC, id DESC LIMIT ?", (*bindings, size + 1)).fetchall()
    found = [_judged(row) for row in rows]
    last = found[size - 1] if len(found) > size else None
    total = connection.execute(f"SELECT {_COUNTS} FROM feedback JOIN conversations USING (n) WHERE {where}", values)
    return FeedbackPage(
        conversations=tuple(found[:size]),
        total=_counts(total.fetchone() or ()),
        cursor=cursor_at(last.last_ts, last.info.id) if last else "",
    )


def fill(connection: Database) -> None:
    """Fill the table from conversations that were written before it existed."""
    for number in numbers(connection):
        first, last = number << 32, (number << 32) | 0xFFFF_FFFF
        try:
            said = entries_of_type(connection, Feedback.type_name, first, last)
            headers = entries_of_type(connection, ConversationStarted.type_name, first, first + 1) if said else []
        except DAMAGE:
            # The feedback of a damaged conversation is not counted; all others are.
            continue
        copied = copied_by(headers[0].block if headers else None)
        note(connection, number, [one for one in judgements_in(said) if one.seq > copied])


def forget_silent(connection: Database) -> None:
    """Delete rows of machine feedback without content, which older versions counted."""
    sql = "SELECT n, seq FROM feedback WHERE said = 'machine'"
    for number, seq in typed(connection.execute(sql).fetchall(), tuple[int, int]):
        place = number << 32 | seq
        try:
            said = entries_of_type(connection, Feedback.type_name, place - 1, place)
        except DAMAGE:
            continue
        if said and not list(judgements_in(said)):
            forget_one(connection, number, seq)


def _matching(query: FeedbackQuery) -> tuple[str, list[str]]:
    conditions, values = ["tenant = ?"], [storable(query.tenant)]
    for column, wanted in (("project", query.project), ("user", query.user)):
        if wanted:
            conditions.append(f"{column} = ?")
            values.append(storable(wanted))
    for comparison, time in (("at >= ?", query.since), ("at < ?", query.until)):
        if time:
            conditions.append(comparison)
            values.append(sortable(time))
    return " AND ".join(conditions), values


def _judged(row: Values) -> JudgedConversation:
    width = len(COLUMNS.split(", "))
    _, last_at, *counts = row[width:]
    return JudgedConversation(info=info_of(row[:width]), counts=_counts(tuple(counts)), last_ts=str(last_at))


def _counts(row: Values) -> FeedbackCounts:
    ok, not_ok, neutral, machine = msgspec.convert(tuple(value or 0 for value in row), tuple[int, int, int, int])
    return FeedbackCounts(ok=ok, not_ok=not_ok, neutral=neutral, machine=machine)
