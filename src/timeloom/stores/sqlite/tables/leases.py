"""Leases in the journal: columns of the conversation's own row, which every append reads and writes anyway."""

from typing import NamedTuple

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.leases import HeldError, Lease, LeaseLostError
from timeloom.ports.reader import ConversationUnknownError
from timeloom.stores.process_locks import Holders
from timeloom.stores.search_terms import storable
from timeloom.stores.sqlite.database import Database


class Held(NamedTuple):
    """What a conversation's row says of its lease; no holder, no lease."""

    number: int
    epoch: int
    holder: str
    held_by: str
    held_since: str


def acquire(connection: Database, holders: Holders, conversation: ConversationId, held_by: str, now: str) -> Lease:
    """Gives the conversation to this holder, unless one that is alive has it."""
    held = _read(connection, conversation)
    if not held:
        raise ConversationUnknownError(conversation)
    if held.holder and holders.is_alive(held.holder):
        raise _refused(conversation, held, holders)
    # Numbers are never used twice, so a conversation that has the name of a deleted one begins above its epochs.
    lease = Lease(conversation, max(held.epoch, held.number << 32) + 1, held_by)
    sql = "UPDATE conversations SET epoch = ?, holder = ?, held_by = ?, held_since = ? WHERE n = ?"
    connection.execute(sql, (lease.epoch, holders.own(), held_by, now, held.number))
    return lease


def release(connection: Database, holders: Holders, lease: Lease) -> None:
    """Ends the lease, if it still stands."""
    held = _read(connection, lease.conversation)
    if held and held.epoch == lease.epoch and holders.is_own(held.holder):
        sql = "UPDATE conversations SET holder = '', held_by = '', held_since = '' WHERE n = ?"
        connection.execute(sql, (held.number,))


def is_held(connection: Database, holders: Holders, conversation: ConversationId) -> bool:
    """Whether one that is alive has the conversation."""
    held = _read(connection, conversation)
    if held is None:
        raise ConversationUnknownError(conversation)
    return bool(held.holder) and holders.is_alive(held.holder)


def admit(connection: Database, holders: Holders, conversation: ConversationId, lease: Lease | None) -> None:
    """Lets an append through whose lease is not plainly in force, or raises: the way that is seldom taken."""
    held = _read(connection, conversation)
    if lease:
        raise LeaseLostError(conversation, _end_of(held, holders))
    if held and held.holder:
        if holders.is_alive(held.holder):
            raise _refused(conversation, held, holders)
        # The dead one's lease is taken over and released, so that nothing of it can come back.
        sql = "UPDATE conversations SET epoch = epoch + 1, holder = '', held_by = '', held_since = '' WHERE n = ?"
        connection.execute(sql, (held.number,))


def _read(connection: Database, conversation: ConversationId) -> Held | None:
    sql = "SELECT n, epoch, holder, held_by, held_since FROM conversations WHERE id = ?"
    row = connection.execute(sql, (storable(conversation),)).fetchone()
    return msgspec.convert(row, Held) if row else None


def _refused(conversation: ConversationId, held: Held, holders: Holders) -> HeldError:
    return HeldError(conversation, f"{held.held_by}, {holders.describe(held.holder)},", held.held_since)


def _end_of(held: Held | None, holders: Holders) -> str:
    if not held:
        return "the conversation was deleted"
    if not held.holder:
        return "it was released"
    return f"{held.held_by}, {holders.describe(held.holder)}, holds the conversation since {held.held_since}"
