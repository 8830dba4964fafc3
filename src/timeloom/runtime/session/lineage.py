"""Finds the root of the tree of conversations that a conversation belongs to."""

from typing import Final

from timeloom.core.ids import ConversationId
from timeloom.ports.reader import ConversationUnknownError
from timeloom.ports.store import Store

MAX_DEPTH: Final = 64
"""Maximum number of parents followed; headers from elsewhere may form a cycle. Deeper conversations count as a
separate tree."""


async def root_of(store: Store, conversation: ConversationId, parent: ConversationId | None) -> ConversationId:
    """Return the id of the first conversation of the tree, even if that conversation was deleted."""
    root = conversation
    for _ in range(MAX_DEPTH):
        if parent is None:
            break
        root = parent
        try:
            parent = (await store.info(root)).parent
        except ConversationUnknownError:
            break
    return root
