"""Keeps leases in columns of the conversation's row, which every append reads and writes anyway."""

from typing import NamedTuple

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.leases import ConversationHeldError, Lease, LeaseLostError
from timeloom.ports.reader import ConversationUnknownError
from timeloom.stores.process_locks import ProcessLocks
from timeloom.stores.search_terms import replace_surrogates
from timeloom.stores.sqlite.database import Database


class LeaseRow(NamedTuple):
    """The lease columns of a conversation's row. An empty holder means no lease."""

    number: int
    epoch: int
    holder: str
    held_by: str
    held_since: str


def acquire(connection: Database, locks: ProcessLocks, conversation: ConversationId, held_by: str, now: str) -> Lease:
    """Give the lease to this process; raises `ConversationHeldError` if another live holder has it."""
    row = _read_row(connection, conversation)
    if not row:
        raise ConversationUnknownError(conversation)
    if row.holder and locks.is_alive(row.holder):
        raise _held_error(conversation, row, locks)
    # Numbers are never reused, so a conversation with the id of a deleted one starts above the epochs of that one.
    lease = Lease(conversation, max(row.epoch, row.number << 32) + 1, held_by)
    sql = "UPDATE conversations SET epoch = ?, holder = ?, held_by = ?, held_since = ? WHERE n = ?"
    connection.execute(sql, (lease.epoch, locks.claim_name(), held_by, now, row.number))
    return lease


def release(connection: Database, locks: ProcessLocks, lease: Lease) -> None:
    """End the lease, if it is still in force."""
    row = _read_row(connection, lease.conversation)
    if row and row.epoch == lease.epoch and locks.is_own(row.holder):
        sql = "UPDATE conversations SET holder = '', held_by = '', held_since = '' WHERE n = ?"
        connection.execute(sql, (row.number,))


def is_held(connection: Database, locks: ProcessLocks, conversation: ConversationId) -> bool:
    """Whether a live holder has a lease on the conversation; raises `ConversationUnknownError`."""
    row = _read_row(connection, conversation)
    if row is None:
        raise ConversationUnknownError(conversation)
    return bool(row.holder) and locks.is_alive(row.holder)


def check_lease(connection: Database, locks: ProcessLocks, conversation: ConversationId, lease: Lease | None) -> None:
    """Raise `LeaseLostError` or `ConversationHeldError` unless an append may proceed.

    `append` calls it only without a valid lease. An append without a lease ends the lease of a dead holder.
    """
    row = _read_row(connection, conversation)
    if lease:
        raise LeaseLostError(conversation, _lost_reason(row, locks))
    if row and row.holder:
        if locks.is_alive(row.holder):
            raise _held_error(conversation, row, locks)
        # Raising the epoch ends the lease of the dead holder, so that no late append with it can succeed.
        sql = "UPDATE conversations SET epoch = epoch + 1, holder = '', held_by = '', held_since = '' WHERE n = ?"
        connection.execute(sql, (row.number,))


def _read_row(connection: Database, conversation: ConversationId) -> LeaseRow | None:
    sql = "SELECT n, epoch, holder, held_by, held_since FROM conversations WHERE id = ?"
    row = connection.execute(sql, (replace_surrogates(conversation),)).fetchone()
    return msgspec.convert(row, LeaseRow) if row else None


def _held_error(conversation: ConversationId, row: LeaseRow, locks: ProcessLocks) -> ConversationHeldError:
    return ConversationHeldError(conversation, f"{row.held_by}, {locks.describe(row.holder)},", row.held_since)


def _lost_reason(row: LeaseRow | None, locks: ProcessLocks) -> str:
    if not row:
        return "the conversation was deleted"
    if not row.holder:
        return "it was released"
    return f"{row.held_by}, {locks.describe(row.holder)}, has held the conversation since {row.held_since}"
