"""Marks conversations that the retention keeps, as records of their owner."""

from typing import Final

import msgspec

from timeloom.core.ids import ConversationId
from timeloom.ports.clock import Clock, timestamp
from timeloom.ports.reader import ConversationInfo
from timeloom.ports.records import RecordRefusedError, RecordScope
from timeloom.ports.store import Store
from timeloom.ports.typed_records import TypedRecords

KIND: Final = "retention.keep"


class KeptConversation(msgspec.Struct, frozen=True):
    """The mark of a conversation, with the time at which it was set."""

    since: str


async def keep_conversation(store: Store, conversation: ConversationId, clock: Clock) -> None:
    """Mark the conversation; raises `ConversationUnknownError`."""
    marks = _marks(store, await store.info(conversation))
    await marks.put(conversation, KeptConversation(timestamp(clock.epoch_us())))


async def release_conversation(store: Store, conversation: ConversationId) -> bool:
    """Remove the mark and return whether there was one; raises `ConversationUnknownError`."""
    info = await store.info(conversation)
    try:
        return await _marks(store, info).delete(conversation)
    except RecordRefusedError:
        return False  # Records refuse the name of its owner, so it cannot have a mark.


async def is_kept(store: Store, conversation: ConversationId) -> bool:
    """Return whether the conversation is marked; raises `ConversationUnknownError`."""
    info = await store.info(conversation)
    try:
        return await _marks(store, info).get(conversation) is not None
    except RecordRefusedError:
        return False


def _marks(store: Store, info: ConversationInfo) -> TypedRecords[KeptConversation]:
    scope = RecordScope(info.tenant, info.project, info.user)
    return TypedRecords(store.records, KIND, KeptConversation, scope)
