"""The states and first titles of listed conversations; only those with an open turn or compaction are read."""

from collections.abc import Sequence
from typing import Final

from timeloom.core.blocks import UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.core.payload import Text
from timeloom.core.render.title import title_from_words
from timeloom.core.view.progress import ProgressView
from timeloom.ports.blobs import BlobError
from timeloom.ports.reader import ConversationInfo, ConversationUnknownError
from timeloom.runtime.hub.events import ConversationState, to_state
from timeloom.runtime.read.open_turn import load_newest_turn
from timeloom.server.services import Services

OPENING_ENTRIES: Final = 3
"""The headers of a conversation and of its first turn, and the message: with fewer, the message is not read."""

TITLE_BYTES: Final = 10_000
"""How much of a large message is read for its first words; a smaller part may contain only blanks."""


async def load_states(services: Services, infos: Sequence[ConversationInfo]) -> list[ConversationState]:
    """Return the state of each conversation, in the same order."""
    with_open_turn = await services.store.having_open_turn([info.id for info in infos])
    return [await _load_state(services, info.id) if info.id in with_open_turn else "idle" for info in infos]


async def load_progress(services: Services, conversation: ConversationId) -> ProgressView:
    """Return the progress of the newest turn, from memory if the conversation is open in this process."""
    if live := services.hub.live_progress(conversation):
        return live[0]
    return await load_newest_turn(services.store, conversation)


async def load_title(services: Services, info: ConversationInfo) -> str:
    """Return the title; before the first turn has ended, the first words of its message."""
    if info.title:
        return info.title
    try:
        opening = await services.store.load(info.id, limit=OPENING_ENTRIES)
    except ConversationUnknownError:
        # It was deleted since the list was read.
        return ""
    for entry in opening:
        if isinstance(entry.block, UserPrompt):
            return title_from_words(await _load_text(services, info.tenant, entry.block.text))
    return ""


async def _load_text(services: Services, tenant: str, text: Text) -> str:
    if isinstance(text, str):
        return text
    try:
        return (await services.store.read_part(tenant, text, 0, TITLE_BYTES)).decode("utf-8", "replace")
    except BlobError:
        # It was erased since the entry was read, or the file is damaged.
        return ""


async def _load_state(services: Services, conversation: ConversationId) -> ConversationState:
    live = services.hub.live_progress(conversation)
    try:
        progress = live[0] if live else await load_newest_turn(services.store, conversation)
        if not progress.running:
            # A requested compaction is open, or the turn ended since the list was read.
            return (await services.hub.status(conversation)).state
        if live:
            return to_state(progress, is_run=not live[1])
        is_held = await services.store.is_held(conversation)
        if to_state(progress, is_run=is_held) == "interrupted":
            # The holder may have ended the turn just before it released the lease.
            progress = await load_newest_turn(services.store, conversation)
    except ConversationUnknownError:
        # It was deleted since the list was read.
        return "idle"
    return to_state(progress, is_run=is_held)
