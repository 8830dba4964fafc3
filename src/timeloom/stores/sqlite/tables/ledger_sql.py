"""Accounts: what a ledger does to the tables of grants and settled amounts, each inside one transaction."""

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
    """What of a grant's row tells whether there is room beside it."""

    grant: str


class _Grant(_Flight, frozen=True, array_like=True, gc=False):
    """A grant's row."""

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
    """Reserves in all scopes under that name, or raises why not. A grant's name begins with its holder's."""
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
    """Removes the grant, if it still stands, and adds what the call did cost to its scopes."""
    sql = "DELETE FROM grants WHERE key = ? AND grant = ? RETURNING scope"
    found = connection.execute(sql, (reserved.key, reserved.grant)).fetchall()
    if actual:
        for (each,) in typed(found, tuple[str]):
            _add(connection, each, reserved.most, actual)


def read_unsettled(connection: Database, conversation: ConversationId) -> tuple[Reserved, ...]:
    """The conversation's grants, by key."""
    sql = f"SELECT {_GRANT_COLUMNS} FROM grants WHERE conversation = ? ORDER BY key, scope"
    rows = typed(connection.execute(sql, (storable(conversation),)), _Grant)
    return tuple(_reserved(list(of_key)) for _, of_key in groupby(rows, key=lambda row: row.key))


def read_spent(connection: Database, scope: str) -> Amounts:
    """What was settled in that scope."""
    return _total(connection, scope).amounts


def forget(connection: Database, conversation: ConversationId) -> None:
    """Of a conversation that is deleted nothing stays but what others share.

    A call that nobody can settle any more is charged as promised: it may have been made.
    """
    for reserved in read_unsettled(connection, conversation):
        close_grant(connection, reserved, reserved.most.presumed)
    turns = scope("turn", conversation, "")
    connection.execute("DELETE FROM ledger WHERE scope = ?", (scope("conversation", conversation),))
    # The character after the one that separates names.
    connection.execute("DELETE FROM ledger WHERE scope > ? AND scope < ?", (turns, f"{turns[:-1]}0"))


def _standing(connection: Database, cap: Cap, key: str, lives: IsAlive) -> Standing:
    """The scope without what that key holds, which it is asking for again."""
    if cap == Cap(scope=cap.scope):
        # Where nothing is limited nothing has to be known.
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
