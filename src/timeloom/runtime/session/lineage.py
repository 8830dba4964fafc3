"""The tree of a conversation: those that were begun from one another, down from the first."""

from typing import Final

from timeloom.core.ids import ConversationId
from timeloom.ports.reader import ConversationUnknownError
from timeloom.ports.store import Store

MAX_DEPTH: Final = 64
"""Most conversations that are gone up. Deeper ones count as a tree of their own; foreign headers may go in circles."""


async def root_of(store: Store, conversation: ConversationId, parent: ConversationId | None) -> ConversationId:
    """The first conversation of the tree, which may be gone: its name still stands for the tree."""
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
