"""Keeps the valid feedback of each turn in a separate table, so that queries read no entries."""

from collections.abc import Iterable

import msgspec

from timeloom.core.blocks import ConversationStarted, Feedback
from timeloom.core.view.feedback import FeedbackCounts
from timeloom.ports.feedback import ConversationFeedback, FeedbackPage, FeedbackQuery
from timeloom.stores.feedback_rows import FeedbackRow, count_copied_entries, extract_feedback, to_sortable_time
from timeloom.stores.search_terms import clamp_page_size, make_cursor, parse_cursor, replace_surrogates
from timeloom.stores.sqlite.database import Database, RowValues, convert_rows
from timeloom.stores.sqlite.tables.entries_by_type import DAMAGE_ERRORS, conversation_numbers, entries_of_type
from timeloom.stores.sqlite.tables.search import INFO_COLUMNS, info_from_row

_COUNTS = "sum(said = 'ok'), sum(said = 'not_ok'), sum(said = 'neutral'), sum(said = 'machine')"


def record_feedback(connection: Database, number: int, rows: Iterable[FeedbackRow]) -> None:
    """Insert feedback on turns of that conversation, and delete the rows that it replaces."""
    for row in rows:
        if row.replaces_previous:
            sql = "DELETE FROM feedback WHERE n = ? AND turn = ? AND said <> 'machine'"
            connection.execute(sql, (number, row.turn))
        if row.kind != "nothing":
            connection.execute(
                "INSERT INTO feedback(n, turn, seq, at, said) VALUES (?, ?, ?, ?, ?)",
                (number, row.turn, row.seq, row.at, row.kind),
            )


def delete_conversation(connection: Database, number: int) -> None:
    """Delete all feedback of a conversation."""
    connection.execute("DELETE FROM feedback WHERE n = ?", (number,))


def delete_entry(connection: Database, number: int, seq: int) -> None:
    """Delete the feedback of one erased entry."""
    connection.execute("DELETE FROM feedback WHERE n = ? AND seq = ?", (number, seq))


def read_kinds(connection: Database, number: int) -> dict[int, str]:
    """Return the kinds of the stored feedback of that conversation, by seq."""
    rows = connection.execute("SELECT seq, said FROM feedback WHERE n = ?", (number,)).fetchall()
    return dict(convert_rows(rows, tuple[int, str]))


def read_feedback_page(connection: Database, query: FeedbackQuery) -> FeedbackPage:
    """Return one page of the matching conversations, and the feedback counts of all of them."""
    size = clamp_page_size(query.limit)
    where, values = _conditions(query)
    grouped = (
        f"SELECT n, max(at) AS last_at, {_COUNTS} FROM feedback JOIN conversations USING (n) WHERE {where} GROUP BY n"
    )
    columns = f"{INFO_COLUMNS}, judged.*"
    sql = f"SELECT {columns} FROM ({grouped}) AS judged JOIN conversations USING (n)"
    bindings = [*values]
    if query.cursor:
        sql += " WHERE (last_at, id) < (?, ?)"
        bindings += parse_cursor(query.cursor)
    rows = connection.execute(f"{sql} ORDER BY last_at DESC, id DESC LIMIT ?", (*bindings, size + 1)).fetchall()
    found = [_conversation_from_row(row) for row in rows]
    last = found[size - 1] if len(found) > size else None
    total = connection.execute(f"SELECT {_COUNTS} FROM feedback JOIN conversations USING (n) WHERE {where}", values)
    return FeedbackPage(
        conversations=tuple(found[:size]),
        total=_counts_from_row(total.fetchone() or ()),
        cursor=make_cursor(last.last_ts, last.info.id) if last else "",
    )


def backfill(connection: Database) -> None:
    """Fill the table from conversations that were written before it existed."""
    for number in conversation_numbers(connection):
        first, last = number << 32, (number << 32) | 0xFFFF_FFFF
        try:
            entries = entries_of_type(connection, Feedback.type_name, first, last)
            headers = entries_of_type(connection, ConversationStarted.type_name, first, first + 1) if entries else []
        except DAMAGE_ERRORS:
            # The feedback of a damaged conversation is not counted; all others are.
            continue
        copied = count_copied_entries(headers[0].block if headers else None)
        record_feedback(connection, number, [one for one in extract_feedback(entries) if one.seq > copied])


def delete_empty_machine_feedback(connection: Database) -> None:
    """Delete rows of machine feedback without content, which older versions counted."""
    sql = "SELECT n, seq FROM feedback WHERE said = 'machine'"
    for number, seq in convert_rows(connection.execute(sql).fetchall(), tuple[int, int]):
        place = number << 32 | seq
        try:
            entries = entries_of_type(connection, Feedback.type_name, place - 1, place)
        except DAMAGE_ERRORS:
            continue
        if entries and not list(extract_feedback(entries)):
            delete_entry(connection, number, seq)


def _conditions(query: FeedbackQuery) -> tuple[str, list[str]]:
    conditions, values = ["tenant = ?"], [replace_surrogates(query.tenant)]
    for column, wanted in (("project", query.project), ("user", query.user)):
        if wanted:
            conditions.append(f"{column} = ?")
            values.append(replace_surrogates(wanted))
    for comparison, time in (("at >= ?", query.since), ("at < ?", query.until)):
        if time:
            conditions.append(comparison)
            values.append(to_sortable_time(time))
    return " AND ".join(conditions), values


def _conversation_from_row(row: RowValues) -> ConversationFeedback:
    width = len(INFO_COLUMNS.split(", "))
    _, last_at, *counts = row[width:]
    return ConversationFeedback(
        info=info_from_row(row[:width]), counts=_counts_from_row(tuple(counts)), last_ts=str(last_at)
    )


def _counts_from_row(row: RowValues) -> FeedbackCounts:
    ok, not_ok, neutral, machine = msgspec.convert(tuple(value or 0 for value in row), tuple[int, int, int, int])
    return FeedbackCounts(ok=ok, not_ok=not_ok, neutral=neutral, machine=machine)
