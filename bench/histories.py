"""Writes conversations of any length in the form that the loop produces."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.loops import HEADER, LoopingModel, look, make_bench_turns
from timeloom.core.blocks import ConversationStarted, TurnStarted
from timeloom.core.blocks.extract_payloads import find_blob_refs, restore_payloads
from timeloom.core.ids import ConversationId, make_turn_id
from timeloom.core.render.editions import THIRD_EDITION
from timeloom.core.timeline import NO_TURN, Draft, Entry
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.store import Store
from timeloom.runtime.session.session import Session
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.wire.record import decode_record, encode_record

ROUNDS_PER_TURN: Final = 13
_BATCH: Final = 1000


async def write_history(
    store: Store,
    conversation: ConversationId,
    blocks: int,
    header: ConversationStarted = HEADER,
    edition: int = THIRD_EDITION,
) -> int:
    """Append whole turns until the conversation has that many blocks; return its final number of blocks."""
    drafts = [Draft(NO_TURN, "2026-01-01T00:00:00Z", header)]
    with tempfile.TemporaryDirectory() as folder:
        turn = await _run_turn(Path(folder), edition)
    number = 0
    tail = 0
    while tail + len(drafts) < blocks:
        number += 1
        drafts += _renumber_turn(turn, number)
        if len(drafts) >= _BATCH:
            tail += len(await store.append(conversation, tail, drafts))
            drafts = []
    if drafts:
        tail += len(await store.append(conversation, tail, drafts))
    return tail


async def _run_turn(folder: Path, edition: int) -> list[Entry]:
    """Return the entries of a turn that the loop ran."""
    entries: list[Entry] = []
    store = await MemoryStore.open()
    session = await Session.start(store, ConversationId("conv_one"), HEADER, SystemClock(), RandomIds())
    session.listen(entries.append)
    model = LoopingModel(ROUNDS_PER_TURN, _nothing, _nothing, _nothing)
    turns = make_bench_turns(session, model, look(_nothing, _nothing), folder, edition=edition)
    await turns.run("Look at all places.")
    refs = {ref for entry in entries for ref in find_blob_refs(entry)}
    payloads = {ref: await store.read_blob(HEADER.tenant, ref) for ref in refs}
    await store.close()
    return [restore_payloads(entry, payloads.__getitem__) for entry in entries]


def _renumber_turn(entries: list[Entry], number: int) -> Iterator[Draft]:
    """Yield the same turn as the n-th of a conversation, with its turn id replaced in every block."""
    old, new = entries[0].turn_id.encode(), make_turn_id(1_760_000_000_000 + number, number)
    for entry in entries:
        record = encode_record(entry).replace(old, new.encode())
        block = decode_record(record, entry.seq).block
        yield Draft(new, entry.ts, TurnStarted(n=number) if isinstance(block, TurnStarted) else block)


def _nothing() -> None:
    pass
