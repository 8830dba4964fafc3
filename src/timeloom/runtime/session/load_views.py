"""Loads the views of a conversation from its newest snapshot and the entries after it."""

import asyncio
from collections.abc import Sequence
from typing import Final

from timeloom.core.blocks import Erased
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views, fold_in_slices
from timeloom.ports.store import Store
from timeloom.wire.snapshot import SNAPSHOT_VERSION, decode_views, encode_views

PAGE: Final = 2_000
"""Entries per read; smaller costs more round trips, larger more memory."""

SNAPSHOT_AFTER: Final = 2_000
"""Entries folded before a new snapshot is worth writing; folding fewer again takes milliseconds."""

FOLD_SLICE_ENTRIES: Final = 50
"""Entries folded before the event loop runs other tasks; they take about 1 ms. More would make streams stutter."""

MAX_PAST_SNAPSHOTS: Final = 8
"""Maximum number of snapshots of past positions. Fewer means more folding; more takes more disk space."""


async def load_views(store: Store, conversation: ConversationId) -> Views:
    """Return the views at the tail; save a snapshot if many entries had to be folded."""
    views = await _load_snapshot(store, conversation, SNAPSHOT_VERSION)
    start = views.tail
    while page := await store.load(conversation, after=views.tail, limit=PAGE):
        await _fold(page, views)
    if views.tail - start >= SNAPSHOT_AFTER:
        await store.save_snapshot(conversation, views.tail, SNAPSHOT_VERSION, encode_views(views))
    return views


async def load_views_at(store: Store, conversation: ConversationId, seq: int) -> Views:
    """Return the views as they were after that entry; save a snapshot near it for the next request."""
    tail = (await store.info(conversation)).tail
    views = await _load_nearest_before(store, conversation, seq)
    snapshot_seq = seq - seq % _snapshot_spacing(seq)
    if snapshot_seq > views.tail:
        await _fold_up_to(store, conversation, views, snapshot_seq)
        await store.save_snapshot(conversation, snapshot_seq, _snapshot_version_at(snapshot_seq), encode_views(views))
        # The folded entries may have been erased meanwhile. A later erasure deletes this snapshot itself.
        if any(isinstance(entry.block, Erased) for entry in await store.load(conversation, after=tail)):
            await store.drop_snapshots()
    await _fold_up_to(store, conversation, views, seq)
    return views


async def _load_nearest_before(store: Store, conversation: ConversationId, seq: int) -> Views:
    """Return the views of the newest saved snapshot that is not after `seq`; empty views if there is none."""
    spacing = _snapshot_spacing(seq)
    for snapshot_seq in range(seq - seq % spacing, 0, -spacing):
        if (views := await _load_snapshot(store, conversation, _snapshot_version_at(snapshot_seq))).tail:
            return views
    views = await _load_snapshot(store, conversation, SNAPSHOT_VERSION)
    return views if views.tail <= seq else Views()


def _snapshot_spacing(seq: int) -> int:
    """Return the distance between past snapshots; it doubles until there are at most `MAX_PAST_SNAPSHOTS`."""
    spacing = SNAPSHOT_AFTER
    while spacing * MAX_PAST_SNAPSHOTS < seq:
        spacing *= 2
    return spacing


def _snapshot_version_at(seq: int) -> str:
    return f"{SNAPSHOT_VERSION}@{seq}"


async def _fold_up_to(store: Store, conversation: ConversationId, views: Views, seq: int) -> None:
    while page := await store.load(conversation, after=views.tail, limit=min(PAGE, seq - views.tail)):
        await _fold(page, views)


async def _fold(entries: Sequence[Entry], views: Views) -> None:
    for _ in fold_in_slices(entries, views, FOLD_SLICE_ENTRIES):
        await asyncio.sleep(0)


async def _load_snapshot(store: Store, conversation: ConversationId, version: str) -> Views:
    found = await store.load_snapshot(conversation, version)
    if found is None:
        return Views()
    seq, data = found
    views = decode_views(data)
    # A snapshot is only a shortcut: one whose tail does not match its key is ignored.
    return views if views and views.tail == seq else Views()
