"""Erases a conversation's texts from side files: files beside the store that only a front end knows."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from timeloom.core.blocks import Followup, Steer, UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.ports.store import Store
from timeloom.runtime.erase.same_text import load_entry_texts

PAGE: Final = 500


class SideFileEraser(Protocol):
    """Removes a conversation's texts from one kind of side file; repeating it changes nothing."""

    def __call__(self, conversation: ConversationId, user_texts: Sequence[str], /) -> None:
        """Remove the conversation's own files, and these user-written texts from shared ones."""
        ...


def erase_side_files(
    erasers: Iterable[SideFileEraser], conversation: ConversationId, user_texts: Sequence[str]
) -> None:
    """Run the erasers one after another; an error of one ends the erasure before the store is changed."""
    for erase_side_file in erasers:
        erase_side_file(conversation, user_texts)


async def load_user_texts(store: Store, conversation: ConversationId) -> tuple[str, ...]:
    """Return all texts that users wrote in the conversation."""
    tenant, seq = (await store.info(conversation)).tenant, 0
    typed: list[Entry] = []
    while page := await store.load(conversation, after=seq, limit=PAGE):
        typed += [entry for entry in page if isinstance(entry.block, UserPrompt | Followup | Steer)]
        seq = page[-1].seq
    return await load_entry_texts(store, tenant, typed)
