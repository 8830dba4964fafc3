"""Exports a conversation as JSON with the blocks of each turn in the order in which they began."""

from collections.abc import AsyncIterator

import msgspec

from timeloom.core.blocks import TurnStarted
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.core.view.chronological import sort_chronologically
from timeloom.ports.store import Store
from timeloom.runtime.read.export import encode_whole_block, iter_entries_until
from timeloom.wire.block_schema import BlockRaw


class SequencedBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block with its seq."""

    seq: int
    block: BlockRaw


class RestoredTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """A whole conversation with the blocks of each turn in the order in which they began."""

    conversation_id: ConversationId
    tail: int
    blocks: tuple[SequencedBlock, ...]


async def export_chronological(store: Store, conversation: ConversationId) -> AsyncIterator[bytes]:
    """Yield the pieces of one object with all blocks in the order in which they began, each with its seq."""
    info = await store.info(conversation)
    yield msgspec.json.encode({"conversation_id": conversation, "tail": info.tail})[:-1] + b',"blocks":['
    between = b""
    async for turn in _group_by_turn(iter_entries_until(store, conversation, info.tail)):
        for entry in sort_chronologically(turn):
            yield between + b'{"seq":%d,"block":%s}' % (entry.seq, await encode_whole_block(store, info.tenant, entry))
            between = b","
    yield b"]}"


async def _group_by_turn(entries: AsyncIterator[Entry]) -> AsyncIterator[list[Entry]]:
    """Yield the entries turn by turn; reordering never moves a block into another turn."""
    turn: list[Entry] = []
    async for entry in entries:
        if turn and isinstance(entry.block, TurnStarted):
            yield turn
            turn = []
        turn.append(entry)
    yield turn
