"""Exports a conversation as JSON, piece by piece so that memory use stays bounded."""

from collections.abc import AsyncIterator
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import Attachment, ContentBlock, ModelCalled
from timeloom.core.blocks.extract_payloads import find_blob_refs, restore_payloads
from timeloom.core.ids import ConversationId
from timeloom.core.payload import BlobRef
from timeloom.core.timeline import Entry
from timeloom.ports.store import Store
from timeloom.runtime.session.load_views import load_views
from timeloom.wire import timeline_json
from timeloom.wire.block_json import encode_block
from timeloom.wire.chain import ChainLink, hash_link
from timeloom.wire.exported_chain import export_link

PAGE: Final = 200
"""Entries per page, held in memory with their payloads."""

_S = TypeVar("_S", bound=msgspec.Struct)


async def export_timeline(store: Store, conversation: ConversationId) -> AsyncIterator[bytes]:
    """Yield the pieces of one `conv.timeline.v1` object with payloads in place, and its hash chain."""
    tenant = (await store.info(conversation)).tenant
    views = await load_views(store, conversation)
    yield timeline_json.timeline_head(conversation, views)
    # Links follow all blocks, so that a reader of the blocks need not know them. They are small beside the blocks.
    links: list[bytes] = []
    between, head = b"", b""
    async for entry, link in _iter_linked_entries(store, conversation, views.tail):
        whole = replace(entry, block=await with_payloads(store, tenant, entry.block))
        shown = timeline_json.timeline_block(whole, views)
        links.append(export_link(link, whole, shown))
        head = hash_link(link)
        yield between + shown
        between = b","
    yield timeline_json.chain_head(timeline_json.timeline_foot(views))
    yield b",".join(links)
    yield timeline_json.chain_foot(head)


async def export_sources(store: Store, conversation: ConversationId) -> AsyncIterator[bytes]:
    """Yield the pieces of one `conv:sources_pool` object with the full rows."""
    tenant = (await store.info(conversation)).tenant
    views = await load_views(store, conversation)
    yield timeline_json.sources_head(conversation)
    between = b""
    for row in views.sources.pool.list_rows():
        yield between + timeline_json.sources_row(await with_payloads(store, tenant, row))
        between = b","
    yield timeline_json.sources_foot()


async def load_sources_page(
    store: Store, conversation: ConversationId, after: int, limit: int
) -> tuple[list[bytes], int | None]:
    """Return up to `limit` full rows after that id, and the id after which the next page begins, or None."""
    tenant = (await store.info(conversation)).tenant
    rows = [row for row in (await load_views(store, conversation)).sources.pool.list_rows() if row.sid > after]
    page = [timeline_json.sources_row(await with_payloads(store, tenant, row)) for row in rows[:limit]]
    return page, rows[limit - 1].sid if len(rows) > limit else None


async def with_payloads(store: Store, tenant: str, value: _S) -> _S:
    """Return the block or row with its references replaced by the payloads."""
    payloads: dict[BlobRef, bytes] = {}
    for ref in find_blob_refs(value):
        payloads[ref] = await store.read_blob(tenant, ref)
    return restore_payloads(value, payloads.__getitem__)


async def iter_entries_until(store: Store, conversation: ConversationId, tail: int) -> AsyncIterator[Entry]:
    """Yield the entries of the conversation up to `tail`, read page by page."""
    seq = 0
    while seq < tail and (page := await store.load(conversation, after=seq, limit=min(PAGE, tail - seq))):
        for entry in page:
            yield entry
        seq = page[-1].seq


async def _iter_linked_entries(
    store: Store, conversation: ConversationId, tail: int
) -> AsyncIterator[tuple[Entry, ChainLink]]:
    seq = 0
    while seq < tail and (page := await store.load(conversation, after=seq, limit=min(PAGE, tail - seq))):
        links = await store.load_chain(conversation, after=seq, limit=len(page))
        for entry, link in zip(page, links, strict=True):
            yield entry, link
        seq = page[-1].seq


async def encode_whole_block(store: Store, tenant: str, entry: Entry) -> bytes:
    """Return the block as JSON with its texts in place.

    Bytes stay references, and so do the texts of model requests, which have a separate route.
    """
    block = entry.block
    if isinstance(block, ModelCalled | Attachment) or (isinstance(block, ContentBlock) and block.text is None):
        return encode_block(entry)
    whole = await with_payloads(store, tenant, block)
    return encode_block(entry if whole is block else replace(entry, block=whole))
