"""Reads and changes the ledger tables `grants` and `ledger`, inside one transaction each."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from typing import Final

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import MEASURES
from timeloom.ports.ledger import Amounts, Cap, Most, Reservation, Reserved, scope
from timeloom.stores.budget_rule import OpenCall, Standing, Total, refusal
from timeloom.stores.search_terms import storable
from timeloom.stores.sqlite.database import Database, Value, typed

IsAlive = Callable[[str], bool]


class _Flight(OpenCall, frozen=True, array_like=True, gc=False):
    """The columns of a grant's row that the budget rule needs."""

    grant: str


class _Grant(_Flight, frozen=True, array_like=True, gc=False):
    """All columns of a grant's row."""

    key: str
    conversation: str
    scope: str


def _insertion(table: str, columns: Sequence[str]) -> str:
    return f"INSERT OR REPLACE INTO {table}({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


_FLIGHT_COLUMNS: Final = ", ".join(_Flight.__struct_fields__)
_GRANT_COLUMNS: Final = ", ".join(_Grant.__struct_fields__)
_TOTAL_COLUMNS: Final = ", ".join(Total.__struct_fields__)
_INSERT_GRANT: Final = _insertion("grants", _Grant.__struct_fields__)
_INSERT_TOTAL: Final = _insertion("ledger", (*Total.__struct_fields__, "scope"))


def grant(connection: Database, reservation: Reservation, name: str, is_alive: IsAlive) -> Reserved:
    """Insert a grant in all scopes under that name, or raise the refusal.

    The name of a grant starts with the name of its holder and a dot.
    """
    holder_lives = cache(is_alive)

    @cache
    def lives(grant: str) -> bool:
        return holder_lives(grant.partition(".")[0])

    standings = {cap.scope: _standing(connection, cap, reservation.key, lives) for cap in reservation.caps}
    why = refusal(reservation, standings)
    if why:
        raise why
    connection.execute("DELETE FROM grants WHERE key = ?", (reservation.key,))
    most: tuple[Value, ...] = msgspec.structs.astuple(reservation.most)
    row = (*most, name, reservation.key, storable(reservation.conversation))
    rows = [(*row, cap.scope) for cap in reservation.caps]
    connection.executemany(_INSERT_GRANT, rows)
    return Reserved(
        key=reservation.key,
        conversation=reservation.conversation,
        grant=name,
        most=reservation.most,
        scopes=tuple(cap.scope for cap in reservation.caps),
    )


def close_grant(connection: Database, reserved: Reserved, actual: Amounts | None) -> None:
    """Delete the grant, if it is still open, and add the actual cost of the call to its scopes."""
    sql = "DELETE FROM grants WHERE key = ? AND grant = ? RETURNING scope"
    found = connection.execute(sql, (reserved.key, reserved.grant)).fetchall()
    if actual:
        for (each,) in typed(found, tuple[str]):
            _add(connection, each, reserved.most, actual)


def read_unsettled(connection: Database, conversation: ConversationId) -> tuple[Reserved, ...]:
    """Return the open grants of the conversation, ordered by key."""
    sql = f"SELECT {_GRANT_COLUMNS} FROM grants WHERE conversation = ? ORDER BY key, scope"
    rows = typed(connection.execute(sql, (storable(conversation),)), _Grant)
    return tuple(_reserved(list(of_key)) for _, of_key in groupby(rows, key=lambda row: row.key))


def read_spent(connection: Database, scope: str) -> Amounts:
    """Return the sum of the settled amounts of the scope."""
    return _total(connection, scope).amounts


def forget(connection: Database, conversation: ConversationId) -> None:
    """Delete the totals of a conversation and of its turns; scopes that others share keep theirs.

    Open grants are charged with their reserved amounts, because the calls may have been made.
    """
    for reserved in read_unsettled(connection, conversation):
        close_grant(connection, reserved, reserved.most.presumed)
    turns = scope("turn", conversation, "")
    connection.execute("DELETE FROM ledger WHERE scope = ?", (scope("conversation", conversation),))
    # "0" is the character after "/", which separates the names in a scope.
    connection.execute("DELETE FROM ledger WHERE scope > ? AND scope < ?", (turns, f"{turns[:-1]}0"))


def _standing(connection: Database, cap: Cap, key: str, lives: IsAlive) -> Standing:
    """Return the state of the scope without the grant of that key, which is being reserved again."""
    if cap == Cap(scope=cap.scope):
        # A scope without limits never refuses, so its state need not be read.
        return Standing()
    sql = f"SELECT {_FLIGHT_COLUMNS} FROM grants WHERE scope = ? AND key <> ?"
    found = msgspec.convert(connection.execute(sql, (cap.scope, key)).fetchall(), list[_Flight])
    flight = [call for call in found if lives(call.grant)]
    lost = [call for call in found if not lives(call.grant)]
    return Standing(_total(connection, cap.scope), flight, lost)


def _total(connection: Database, scope: str) -> Total:
    row = connection.execute(f"SELECT {_TOTAL_COLUMNS} FROM ledger WHERE scope = ?", (storable(scope),)).fetchone()
    return msgspec.convert(row, Total) if row else Total()


def _add(connection: Database, scope: str, most: Most, actual: Amounts) -> None:
    after = _total(connection, scope).after(most, actual)
    connection.execute(_INSERT_TOTAL, (*msgspec.structs.astuple(after), scope))


def _reserved(rows: list[_Grant]) -> Reserved:
    first = rows[0]
    return Reserved(
        key=first.key,
        conversation=ConversationId(first.conversation),
        grant=first.grant,
        most=Most(**{measure: getattr(first, measure) for measure in MEASURES}),
        scopes=tuple(row.scope for row in rows),
    )
