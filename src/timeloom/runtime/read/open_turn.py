"""Reads the progress of a conversation's newest turn, without the entries before that turn."""

from typing import Final

from timeloom.core.blocks import TurnStarted
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.core.view.progress import ProgressView
from timeloom.ports.store import Store

PAGE: Final = 500
"""Entries per read. Most turns have fewer; a smaller page reads long turns in more steps."""


async def load_newest_turn(store: Store, conversation: ConversationId) -> ProgressView:
    """Return the progress of the newest turn; read backwards from the last entry to the start of the turn.

    The cost grows with the turn, not with the conversation.
    """
    end, pages = (await store.info(conversation)).tail, list[list[Entry]]()
    while end:
        start = max(0, end - PAGE)
        page = await store.load(conversation, after=start, limit=end - start)
        first = next((at for at in reversed(range(len(page))) if isinstance(page[at].block, TurnStarted)), None)
        pages.append(page[first:])
        if first is not None:
            break
        end = start
    progress = ProgressView()
    for page in reversed(pages):
        for entry in page:
            progress.add(entry)
    return progress
