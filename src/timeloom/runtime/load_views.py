"""Loading the views of a conversation: from a snapshot where there is one, and the entries after it."""

from typing import Final

from timeloom.core.ids import ConversationId
from timeloom.core.view.views import Views, fold
from timeloom.ports.store import Store
from timeloom.wire.snapshot import SNAPSHOT_VERSION, decode_views, encode_views

PAGE: Final = 2_000
"""Entries read at once; smaller pays more trips, larger more memory."""

SNAPSHOT_AFTER: Final = 2_000
"""Entries folded anew before another snapshot is worth its writing; refolding fewer takes milliseconds."""


async def load_views(store: Store, conversation: ConversationId) -> Views:
    """The views at the tail; leaves a snapshot behind where many entries had to be folded."""
    views = await _from_snapshot(store, conversation)
    start = views.tail
    while page := await store.load(conversation, after=views.tail, limit=PAGE):
        fold(page, views)
    if views.tail - start >= SNAPSHOT_AFTER:
        await store.save_snapshot(conversation, views.tail, SNAPSHOT_VERSION, encode_views(views))
    return views


async def _from_snapshot(store: Store, conversation: ConversationId) -> Views:
    found = await store.load_snapshot(conversation, SNAPSHOT_VERSION)
    if found is None:
        return Views()
    seq, data = found
    views = decode_views(data)
    # A snapshot is only ever a shortcut: one that does not say what its key says is folded anew.
    return views if views and views.tail == seq else Views()
