"""Deletes a conversation only if no process has it open."""

from collections.abc import Sequence
from pathlib import Path

from timeloom.core.ids import ConversationId
from timeloom.ports.store import Store
from timeloom.runtime.erase.erase import delete_conversation_data
from timeloom.runtime.erase.side_files import SideFileEraser


async def delete_unheld(
    store: Store,
    conversation: ConversationId,
    workspaces: Path,
    holder: str,
    side_file_erasers: Sequence[SideFileEraser] = (),
) -> None:
    """Delete the conversation, its files and its side files under a lease.

    Raises `ConversationHeldError` if another holder has it, and `ConversationUnknownError`; nothing is deleted then.
    """
    lease = await store.acquire(conversation, holder)
    try:
        await delete_conversation_data(store, conversation, workspaces, side_file_erasers)
    finally:
        await store.release(lease)
