"""Exports a conversation as JSON with the blocks of each turn in the order in which they began."""

from collections.abc import AsyncIterator

import msgspec

from timeloom.core.blocks import TurnStarted
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.core.view.chronological import restored
from timeloom.ports.store import Store
from timeloom.runtime.hub.events import whole_block
from timeloom.runtime.read.export import entries_until


async def export_restored(store: Store, conversation: ConversationId) -> AsyncIterator[bytes]:
    """Yield the pieces of one object with all blocks in the order in which they began, each with its seq."""
    info = await store.info(conversation)
    yield msgspec.json.encode({"conversation_id": conversation, "tail": info.tail})[:-1] + b',"blocks":['
    between = b""
    async for turn in _turns(entries_until(store, conversation, info.tail)):
        for entry in restored(turn):
            yield between + b'{"seq":%d,"block":%s}' % (entry.seq, await whole_block(store, info.tenant, entry))
            between = b","
    yield b"]}"


async def _turns(entries: AsyncIterator[Entry]) -> AsyncIterator[list[Entry]]:
    """Yield the entries turn by turn; reordering never moves a block into another turn."""
    turn: list[Entry] = []
    async for entry in entries:
        if turn and isinstance(entry.block, TurnStarted):
            yield turn
            turn = []
        turn.append(entry)
    yield turn
