"""Finds conversations that have the same entries because they were forked from one another."""

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Final

from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.ports.reader import ConversationInfo, ConversationQuery
from timeloom.ports.store import Store

PAGE: Final = 500
"""Conversations listed per request to the store."""


async def find_conversations_sharing(store: Store, info: ConversationInfo, seq: int) -> tuple[ConversationId, ...]:
    """Return the conversations that contain that entry of this one: forks, ancestors, and forks of those.

    Forks of a deleted conversation are still found through it.
    """
    listed = await _list_conversations(store, info.tenant)
    parents = {other.id: other.parent for other in listed if other.parent}
    neighbours = defaultdict[ConversationId, list[ConversationId]](list)
    for child, parent in parents.items():
        neighbours[child].append(parent)
        neighbours[parent].append(child)
    queue, seen = deque([info.id]), {info.id}
    while queue:
        here = queue.popleft()
        for there in neighbours[here]:
            if there not in seen and seq <= await _common_seq(store, here, there, parents):
                seen.add(there)
                queue.append(there)
    return tuple(sorted(other.id for other in listed if other.id in seen - {info.id}))


async def _list_conversations(store: Store, tenant: str) -> list[ConversationInfo]:
    found: list[ConversationInfo] = []
    cursor = ""
    while True:
        page = await store.conversations(ConversationQuery(tenant=tenant, cursor=cursor, limit=PAGE))
        found += page.conversations
        cursor = page.cursor
        if not cursor:
            return found


async def _common_seq(
    store: Store, one: ConversationId, other: ConversationId, parents: Mapping[ConversationId, ConversationId]
) -> int:
    """Return the last seq that a fork and its source have in common."""
    child, parent = (one, other) if parents.get(one) == other else (other, one)
    (header,) = await store.load(child, limit=1)
    return _forked_at(header, parent)


def _forked_at(header: Entry, parent: ConversationId) -> int:
    point = header.block.forked_from if isinstance(header.block, ConversationStarted) else None
    return point.seq if point and point.conversation_id == parent else 0
