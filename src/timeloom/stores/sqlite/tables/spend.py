"""Keeps what model calls cost by day, model and conversation in a table, so that a bill reads no entries."""

from collections.abc import Iterable
from typing import Final

from timeloom.core.blocks import ConversationStarted, ModelAnswered
from timeloom.core.ids import ConversationId
from timeloom.ports.spend import SpendPage, SpendQuery, SpendSums
from timeloom.stores.feedback_rows import count_copied_entries
from timeloom.stores.search_terms import replace_surrogates
from timeloom.stores.spend_rows import (
    MAX_SUM,
    SUMS,
    Costs,
    clamp_spend_limit,
    make_spend_cursor,
    make_spend_row,
    parse_spend_cursor,
    sum_costs,
)
from timeloom.stores.sqlite.database import Database, RowValues, convert_rows
from timeloom.stores.sqlite.tables.entries_by_type import DAMAGE_ERRORS, conversation_numbers, entries_of_type

_COLUMNS: Final = ", ".join(SUMS)
_ADD: Final = ", ".join(f"{name} = min({name} + excluded.{name}, {MAX_SUM})" for name in SUMS)
# `total` adds floats, which are exact up to the limit and cannot overflow.
_TOTALS: Final = ", ".join(f"CAST(min(total({name}), {MAX_SUM}.0) AS INTEGER)" for name in SUMS)


def record_costs(connection: Database, number: int, costs: Costs) -> None:
    """Add the costs of new entries of that conversation."""
    values = ", ".join("?" for _ in SUMS)
    sql = (
        f"INSERT INTO spend(tenant, project, day, user, model, conversation, {_COLUMNS})"
        f" SELECT tenant, project, ?, user, ?, id, {values} FROM conversations WHERE n = ?"
        f" ON CONFLICT DO UPDATE SET {_ADD}"
    )
    for (day, model), sums in costs.items():
        connection.execute(sql, (day, model, *(getattr(sums, name) for name in SUMS), number))


def forget_conversation(connection: Database, conversation: ConversationId) -> None:
    """Keep the costs of a conversation that is deleted, without its id."""
    connection.execute(
        f"INSERT INTO spend(tenant, project, day, user, model, conversation, {_COLUMNS})"
        f" SELECT tenant, project, day, user, model, '', {_COLUMNS} FROM spend WHERE conversation = ?"
        f" ON CONFLICT DO UPDATE SET {_ADD}",
        (conversation,),
    )
    connection.execute("DELETE FROM spend WHERE conversation = ?", (conversation,))


def read_costs(connection: Database, conversation: ConversationId) -> Costs:
    """Return the stored costs of that conversation."""
    sql = f"SELECT day, model, {_COLUMNS} FROM spend WHERE conversation = ?"
    rows = connection.execute(sql, (conversation,)).fetchall()
    return {(str(row[0]), str(row[1])): _sums_from_row(row[2:]) for row in rows}


def read_spend_page(connection: Database, query: SpendQuery) -> SpendPage:
    """Return one page of the bill."""
    after, size = parse_spend_cursor(query), clamp_spend_limit(query.limit)
    where, values = _conditions(query)
    total = connection.execute(f"SELECT {_TOTALS} FROM spend WHERE {where}", values).fetchone()
    sums = _sums_from_row(total or ())
    if not query.by:
        return SpendPage(rows=(), total=sums)
    columns = ", ".join(query.by)
    if after:
        where += f" AND ({columns}) > ({', '.join('?' for _ in after)})"
        values += [replace_surrogates(value) for value in after]
    sql = f"SELECT {columns}, {_TOTALS} FROM spend WHERE {where} GROUP BY {columns} ORDER BY {columns} LIMIT ?"
    found = connection.execute(sql, (*values, size + 1)).fetchall()
    width = len(query.by)
    groups = [tuple(map(str, row[:width])) for row in found[:size]]
    rows = (
        make_spend_row(query.by, group, _sums_from_row(row[width:])) for group, row in zip(groups, found, strict=False)
    )
    return SpendPage(rows=tuple(rows), total=sums, cursor=make_spend_cursor(groups[-1]) if len(found) > size else "")


def backfill(connection: Database) -> None:
    """Fill the table from conversations that were written before it existed."""
    for number in conversation_numbers(connection):
        first, last = number << 32, (number << 32) | 0xFFFF_FFFF
        try:
            entries = entries_of_type(connection, ModelAnswered.type_name, first, last)
            headers = entries_of_type(connection, ConversationStarted.type_name, first, first + 1) if entries else []
        except DAMAGE_ERRORS:
            # The calls of a damaged conversation are not counted; all others are.
            continue
        copied = count_copied_entries(headers[0].block if headers else None)
        record_costs(connection, number, sum_costs(entry for entry in entries if entry.seq > copied))


def _conditions(query: SpendQuery) -> tuple[str, list[str]]:
    wanted = (
        ("tenant = ?", query.tenant),
        ("project = ?", query.project),
        ("user = ?", query.user),
        ("day >= ?", query.since),
        ("day < ?", query.until),
    )
    conditions = [(condition, replace_surrogates(value)) for condition, value in wanted if value]
    return " AND ".join(["1", *(condition for condition, _ in conditions)]), [value for _, value in conditions]


def _sums_from_row(row: RowValues | Iterable[object]) -> SpendSums:
    (values,) = convert_rows([tuple(row)], tuple[int, ...])
    return SpendSums(**dict(zip(SUMS, values, strict=True)))
