"""Accounts: what a ledger does to the tables of grants and settled amounts, each inside one transaction."""

from collections.abc import Callable
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.ledger import Amounts, Cap, Most, Reservation, Reserved, scope
from timeloom.stores.granting import OpenCall, Standing, Total, presumed, refusal
from timeloom.stores.sqlite.database import Database, Value, typed
from timeloom.stores.words import storable

IsAlive = Callable[[str], bool]


class _Grant(NamedTuple):
    scope: str
    key: str
    grant: str
    conversation: str
    rounds: int
    tokens: int | None
    cost_nano_usd: int | None
    tool_calls: int


_Flight = tuple[int, int | None, int | None, int, str]
_GRANT_COLUMNS: Final = ", ".join(_Grant._fields)
_TOTAL_COLUMNS: Final = ", ".join(Total.__struct_fields__)


def grant(connection: Database, reservation: Reservation, name: str, is_alive: IsAlive) -> Reserved:
    """Reserves in all scopes under that name, or raises why not. A grant's name begins with its holder's."""
    alive: dict[str, bool] = {}

    def lives(holder: str) -> bool:
        if holder not in alive:
            alive[holder] = is_alive(holder)
        return alive[holder]

    standings = {cap.scope: _standing(connection, cap, reservation.key, lives) for cap in reservation.caps}
    why = refusal(reservation, standings)
    if why:
        raise why
    connection.execute("DELETE FROM grants WHERE key = ?", (reservation.key,))
    most, whose = reservation.most, storable(reservation.conversation)
    amounts = (most.rounds, most.tokens, most.cost_nano_usd, most.tool_calls)
    rows: list[tuple[Value, ...]] = [(cap.scope, reservation.key, name, whose, *amounts) for cap in reservation.caps]
    connection.executemany("INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return Reserved(
        key=reservation.key,
        conversation=reservation.conversation,
        grant=name,
        most=most,
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
        close_grant(connection, reserved, presumed(reserved.most))
    turns = scope("turn", conversation, "")
    connection.execute("DELETE FROM ledger WHERE scope = ?", (scope("conversation", conversation),))
    # The character after the one that separates names.
    connection.execute("DELETE FROM ledger WHERE scope > ? AND scope < ?", (turns, f"{turns[:-1]}0"))


def _standing(connection: Database, cap: Cap, key: str, lives: IsAlive) -> Standing:
    """The scope without what that key holds, which it is asking for again."""
    if cap == Cap(scope=cap.scope):
        # Where nothing is limited nothing has to be known.
        return Standing()
    sql = "SELECT rounds, tokens, cost_nano_usd, tool_calls, grant FROM grants WHERE scope = ? AND key <> ?"
    rows = msgspec.convert(connection.execute(sql, (cap.scope, key)).fetchall(), list[_Flight])
    open_calls = [
        OpenCall(rounds, tokens, cost, tool_calls, lives(grant.partition(".")[0]))
        for rounds, tokens, cost, tool_calls, grant in rows
    ]
    return Standing(_total(connection, cap.scope), open_calls)


def _total(connection: Database, scope: str) -> Total:
    row = connection.execute(f"SELECT {_TOTAL_COLUMNS} FROM ledger WHERE scope = ?", (storable(scope),)).fetchone()
    return msgspec.convert(dict(zip(Total.__struct_fields__, row, strict=True)), Total) if row else Total()


def _add(connection: Database, scope: str, most: Most, actual: Amounts) -> None:
    after = _total(connection, scope).after(most, actual)
    sql = f"INSERT OR REPLACE INTO ledger(scope, {_TOTAL_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    connection.execute(sql, (scope, *msgspec.structs.astuple(after)))


def _reserved(rows: list[_Grant]) -> Reserved:
    first = rows[0]
    return Reserved(
        key=first.key,
        conversation=ConversationId(first.conversation),
        grant=first.grant,
        most=_most(first),
        scopes=tuple(row.scope for row in rows),
    )


def _most(row: _Grant) -> Most:
    return Most(rounds=row.rounds, tokens=row.tokens, cost_nano_usd=row.cost_nano_usd, tool_calls=row.tool_calls)
