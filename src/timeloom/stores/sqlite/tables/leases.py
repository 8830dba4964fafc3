"""Keeps leases in columns of the conversation's row, which every append reads and writes anyway."""

from typing import NamedTuple

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.leases import HeldError, Lease, LeaseLostError
from timeloom.ports.reader import ConversationUnknownError
from timeloom.stores.process_locks import Holders
from timeloom.stores.search_terms import storable
from timeloom.stores.sqlite.database import Database


class Held(NamedTuple):
    """The lease columns of a conversation's row. An empty holder means no lease."""

    number: int
    epoch: int
    holder: str
    held_by: str
    held_since: str


def acquire(connection: Database, holders: Holders, conversation: ConversationId, held_by: str, now: str) -> Lease:
    """Give the lease to this process; raises `ConversationHeldError` if another live holder has it."""
    held = _read(connection, conversation)
    if not held:
        raise ConversationUnknownError(conversation)
    if held.holder and holders.is_alive(held.holder):
        raise _refused(conversation, held, holders)
    # Numbers are never reused, so a conversation with the id of a deleted one starts above the epochs of that one.
    lease = Lease(conversation, max(held.epoch, held.number << 32) + 1, held_by)
    sql = "UPDATE conversations SET epoch = ?, holder = ?, held_by = ?, held_since = ? WHERE n = ?"
    connection.execute(sql, (lease.epoch, holders.own(), held_by, now, held.number))
    return lease


def release(connection: Database, holders: Holders, lease: Lease) -> None:
    """End the lease, if it is still in force."""
    held = _read(connection, lease.conversation)
    if held and held.epoch == lease.epoch and holders.is_own(held.holder):
        sql = "UPDATE conversations SET holder = '', held_by = '', held_since = '' WHERE n = ?"
        connection.execute(sql, (held.number,))


def is_held(connection: Database, holders: Holders, conversation: ConversationId) -> bool:
    """Whether a live holder has a lease on the conversation; raises `ConversationUnknownError`."""
    held = _read(connection, conversation)
    if held is None:
        raise ConversationUnknownError(conversation)
    return bool(held.holder) and holders.is_alive(held.holder)


def admit(connection: Database, holders: Holders, conversation: ConversationId, lease: Lease | None) -> None:
    """Raise `LeaseLostError` or `ConversationHeldError` unless an append may proceed.

    `append` calls it only without a valid lease. An append without a lease ends the lease of a dead holder.
    """
    held = _read(connection, conversation)
    if lease:
        raise LeaseLostError(conversation, _end_of(held, holders))
    if held and held.holder:
        if holders.is_alive(held.holder):
            raise _refused(conversation, held, holders)
        # Raising the epoch ends the lease of the dead holder, so that no late append with it can succeed.
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
    return f"{held.held_by}, {holders.describe(held.holder)}, has held the conversation since {held.held_since}"
