"""Deletes conversations whose last entry is older than the retention period, with the guarantees of a delete."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.leases import ConversationHeldError
from timeloom.ports.reader import ConversationInfo, ConversationUnknownError
from timeloom.ports.store import Store
from timeloom.ports.typed_records import TypedRecords
from timeloom.runtime.erase.erase import remove_conversation
from timeloom.runtime.erase.kept import is_kept
from timeloom.runtime.erase.side_files import SideFileEraser

HOLDER: Final = "timeloom retention"
PAGE: Final = 200
DAY_US: Final = 24 * 3600 * 1_000_000
_SCRUB: Final = "scrub"

RetentionOutcome = Literal["deleted", "due", "open", "held", "kept"]
"""`due` is what a dry run would delete; the last three are skipped: an open turn, open in a program, marked."""

OnDelete = Callable[[ConversationInfo], Awaitable[None]]
"""Called before a conversation is deleted; an error of it keeps the conversation."""


class RetentionResult(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation older than the retention period, and its outcome."""

    conversation: ConversationId
    outcome: RetentionOutcome
    tenant: str
    project: str
    user: str
    last_ts: str


class PendingScrub(msgspec.Struct, frozen=True):
    """Stored from before the first delete until the files of the store are scrubbed."""

    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionContext:
    """The store and the folders from which conversations are deleted."""

    store: Store
    workspaces: Path
    clock: Clock
    side_file_erasers: Sequence[SideFileEraser] = ()
    on_delete: OnDelete | None = None


async def apply_retention(
    context: RetentionContext, days: int, *, dry_run: bool = False
) -> AsyncGenerator[RetentionResult]:
    """Delete the conversations that are older than that many days, and yield each with its outcome.

    Conversations that are running, waiting, open in a program or marked to be kept stay. At the end the store's files
    are scrubbed, so that no deleted content remains in them. After an interruption the next run completes that.
    """
    store, now_us = context.store, context.clock.epoch_us()
    before = timestamp(max(0, now_us - days * DAY_US))
    pending = TypedRecords(store.records, "retention", PendingScrub, clock=context.clock)
    last = ConversationId("")
    while page := await store.idle_conversations(before, after=last, limit=PAGE):
        for info in page:
            last = info.id
            reason = await _reason_to_skip(store, info.id)
            if not reason and not dry_run:
                await pending.put(_SCRUB, PendingScrub(timestamp(now_us)))
                reason = await _delete(context, info, before)
            if reason != "gone":
                yield _to_result(info, reason or ("due" if dry_run else "deleted"))
    if not dry_run and await pending.get(_SCRUB):
        await store.scrub()
        await pending.delete(_SCRUB)


async def _reason_to_skip(store: Store, conversation: ConversationId) -> Literal["", "open", "held", "kept", "gone"]:
    if await store.having_open_turn([conversation]):
        return "open"
    try:
        if await store.is_held(conversation):
            return "held"
        return "kept" if await is_kept(store, conversation) else ""
    except ConversationUnknownError:
        return "gone"


async def _delete(
    context: RetentionContext, info: ConversationInfo, before: str
) -> Literal["", "open", "held", "kept", "gone"]:
    """Delete the conversation unless it changed since it was listed, and return why it was not deleted."""
    store = context.store
    try:
        lease = await store.acquire(info.id, HOLDER)
    except ConversationHeldError:
        return "held"
    except ConversationUnknownError:
        return "gone"
    try:
        # The lease keeps others from appending; before it, a message may have arrived.
        if (await store.info(info.id)).last_ts >= before:
            return "gone"
        if await store.having_open_turn([info.id]):
            return "open"
        if context.on_delete:
            await context.on_delete(info)
        await remove_conversation(store, info.id, context.workspaces, context.side_file_erasers)
    finally:
        await store.release(lease)
    return ""


def _to_result(info: ConversationInfo, outcome: RetentionOutcome) -> RetentionResult:
    return RetentionResult(
        conversation=info.id,
        outcome=outcome,
        tenant=info.tenant,
        project=info.project,
        user=info.user,
        last_ts=info.last_ts,
    )
