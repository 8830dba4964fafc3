"""Reads and changes the ledger tables `grants` and `ledger`, inside one transaction each."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from typing import Final

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import MEASURES
from timeloom.ports.ledger import Amounts, BudgetCap, BudgetGrant, MaxAmounts, Reservation, scope
from timeloom.stores.budget_rule import BudgetState, OpenCall, ScopeTotal, find_refusal
from timeloom.stores.search_terms import replace_surrogates
from timeloom.stores.sqlite.database import Database, SqlValue, convert_rows

IsAlive = Callable[[str], bool]


class _OpenGrantRow(OpenCall, frozen=True, array_like=True, gc=False):
    """The columns of a grant's row that the budget rule needs."""

    grant: str


class _GrantRow(_OpenGrantRow, frozen=True, array_like=True, gc=False):
    """All columns of a grant's row."""

    key: str
    conversation: str
    scope: str


def _insert_sql(table: str, columns: Sequence[str]) -> str:
    return f"INSERT OR REPLACE INTO {table}({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


_OPEN_GRANT_COLUMNS: Final = ", ".join(_OpenGrantRow.__struct_fields__)
_GRANT_COLUMNS: Final = ", ".join(_GrantRow.__struct_fields__)
_TOTAL_COLUMNS: Final = ", ".join(ScopeTotal.__struct_fields__)
_INSERT_GRANT: Final = _insert_sql("grants", _GrantRow.__struct_fields__)
_INSERT_TOTAL: Final = _insert_sql("ledger", (*ScopeTotal.__struct_fields__, "scope"))


def insert_grant(connection: Database, reservation: Reservation, name: str, is_alive: IsAlive) -> BudgetGrant:
    """Insert a grant in all scopes under that name, or raise the refusal.

    The name of a grant starts with the name of its holder and a dot.
    """
    is_holder_alive = cache(is_alive)

    @cache
    def is_grant_alive(grant: str) -> bool:
        return is_holder_alive(grant.partition(".")[0])

    states = {
        cap.scope: _read_budget_state(connection, cap, reservation.key, is_grant_alive) for cap in reservation.caps
    }
    why = find_refusal(reservation, states)
    if why:
        raise why
    connection.execute("DELETE FROM grants WHERE key = ?", (reservation.key,))
    most: tuple[SqlValue, ...] = msgspec.structs.astuple(reservation.most)
    row = (*most, name, reservation.key, replace_surrogates(reservation.conversation))
    rows = [(*row, cap.scope) for cap in reservation.caps]
    connection.executemany(_INSERT_GRANT, rows)
    return BudgetGrant(
        key=reservation.key,
        conversation=reservation.conversation,
        grant=name,
        most=reservation.most,
        scopes=tuple(cap.scope for cap in reservation.caps),
    )


def close_grant(connection: Database, reserved: BudgetGrant, actual: Amounts | None) -> None:
    """Delete the grant, if it is still open, and add the actual cost of the call to its scopes."""
    sql = "DELETE FROM grants WHERE key = ? AND grant = ? RETURNING scope"
    found = connection.execute(sql, (reserved.key, reserved.grant)).fetchall()
    if actual:
        for (each,) in convert_rows(found, tuple[str]):
            _add_to_total(connection, each, reserved.most, actual)


def read_unsettled(connection: Database, conversation: ConversationId) -> tuple[BudgetGrant, ...]:
    """Return the open grants of the conversation, ordered by key."""
    sql = f"SELECT {_GRANT_COLUMNS} FROM grants WHERE conversation = ? ORDER BY key, scope"
    rows = convert_rows(connection.execute(sql, (replace_surrogates(conversation),)), _GrantRow)
    return tuple(_grant_from_rows(list(of_key)) for _, of_key in groupby(rows, key=lambda row: row.key))


def read_spent(connection: Database, scope: str) -> Amounts:
    """Return the sum of the settled amounts of the scope."""
    return _read_total(connection, scope).amounts


def delete_conversation(connection: Database, conversation: ConversationId) -> None:
    """Delete the totals of a conversation and of its turns; scopes that others share keep theirs.

    Open grants are charged with their reserved amounts, because the calls may have been made.
    """
    for reserved in read_unsettled(connection, conversation):
        close_grant(connection, reserved, reserved.most.presumed_amounts)
    turns = scope("turn", conversation, "")
    connection.execute("DELETE FROM ledger WHERE scope = ?", (scope("conversation", conversation),))
    # "0" is the character after "/", which separates the names in a scope.
    connection.execute("DELETE FROM ledger WHERE scope > ? AND scope < ?", (turns, f"{turns[:-1]}0"))


def _read_budget_state(connection: Database, cap: BudgetCap, key: str, is_grant_alive: IsAlive) -> BudgetState:
    """Return the state of the scope without the grant of that key, which is being reserved again."""
    if cap == BudgetCap(scope=cap.scope):
        # A scope without limits never refuses, so its state need not be read.
        return BudgetState()
    sql = f"SELECT {_OPEN_GRANT_COLUMNS} FROM grants WHERE scope = ? AND key <> ?"
    found = msgspec.convert(connection.execute(sql, (cap.scope, key)).fetchall(), list[_OpenGrantRow])
    in_flight = [call for call in found if is_grant_alive(call.grant)]
    lost = [call for call in found if not is_grant_alive(call.grant)]
    return BudgetState(_read_total(connection, cap.scope), in_flight, lost)


def _read_total(connection: Database, scope: str) -> ScopeTotal:
    row = connection.execute(
        f"SELECT {_TOTAL_COLUMNS} FROM ledger WHERE scope = ?", (replace_surrogates(scope),)
    ).fetchone()
    return msgspec.convert(row, ScopeTotal) if row else ScopeTotal()


def _add_to_total(connection: Database, scope: str, most: MaxAmounts, actual: Amounts) -> None:
    after = _read_total(connection, scope).with_call(most, actual)
    connection.execute(_INSERT_TOTAL, (*msgspec.structs.astuple(after), scope))


def _grant_from_rows(rows: list[_GrantRow]) -> BudgetGrant:
    first = rows[0]
    return BudgetGrant(
        key=first.key,
        conversation=ConversationId(first.conversation),
        grant=first.grant,
        most=MaxAmounts(**{measure: getattr(first, measure) for measure in MEASURES}),
        scopes=tuple(row.scope for row in rows),
    )
