"""Routes of pins: list the pinned blocks of a conversation, pin a block, and end a pin."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from timeloom.core.blocks import Pinned
from timeloom.core.ids import ConversationId
from timeloom.runtime.session.load_views import load_views
from timeloom.server.request_context import RequestContext

MAX_PINS: Final = 1_000
"""Maximum number of pins in a response. Pins share a tenth of the window, so only a log of another program has more."""


class PinBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The path of the blocks to pin; with `pinned: false`, their pin ends."""

    path: Annotated[str, Meta(min_length=1, max_length=4_096)]
    pinned: bool = True


class PinReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded pin, or its end: the path of the blocks, their tokens, and the seq of its entry."""

    conversation_id: ConversationId
    path: str
    pinned: bool
    seq: int
    tokens: int


class PinnedPath(msgspec.Struct, frozen=True, kw_only=True):
    """A pin: its path, the pinned entries, their estimated tokens, and the seq of the entry that pinned them."""

    path: str
    seqs: tuple[int, ...]
    tokens: int
    seq: int


class PinList(msgspec.Struct, frozen=True, kw_only=True):
    """The pins of a conversation, oldest first, and their tokens together."""

    conversation_id: ConversationId
    pins: tuple[PinnedPath, ...]
    tokens: int


async def list_pins(context: RequestContext) -> PinList:
    """List the pinned blocks, which survive pruning and compaction."""
    name = context.conversation.id
    visible = (await load_views(context.services.store, name)).visible
    pins = [PinnedPath(path=path, seqs=pin.seqs, tokens=pin.tokens, seq=pin.by) for path, pin in visible.pins.items()]
    return PinList(conversation_id=name, pins=tuple(pins[-MAX_PINS:]), tokens=visible.pinned_tokens)


async def post_pin(context: RequestContext, body: PinBody) -> PinReceipt:
    """Pin the blocks at a path, so that they survive pruning and compaction, or end their pin."""
    info = context.conversation
    entry = await context.services.hub.pin(info.id, body.path, pinned=body.pinned, author=context.author_in(info))
    assert isinstance(entry.block, Pinned)
    return PinReceipt(
        conversation_id=info.id,
        path=entry.block.target,
        pinned=entry.block.pinned,
        seq=entry.seq,
        tokens=entry.block.tokens,
    )
