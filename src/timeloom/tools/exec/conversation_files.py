"""Writes `timeline.json` and `sources_pool.json` for a program whose code names them."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, cast

import msgspec

from timeloom.core.blocks import Hosting
from timeloom.core.payload import BlobRef
from timeloom.core.sources import row_to_json
from timeloom.ports.tool import ToolContext
from timeloom.tools.exec.inputs import ProgramInputs
from timeloom.wire.timeline_json import sources_foot, sources_head, timeline_block, timeline_foot, timeline_head

TIMELINE: Final = "timeline.json"
SOURCES: Final = "sources_pool.json"

MAX_BYTES: Final = 16 * 1024 * 1024
"""Most bytes of the blocks or rows in one file; the oldest are left out. Smaller cuts long conversations; larger makes
a program that reads its history slow to start."""

_BATCH: Final = 500
_HOSTING: Final = Hosting.__struct_fields__
_JSON: Final = msgspec.json.Decoder(dict[str, object])


async def add_conversation_files(code: str, context: ToolContext, folder: Path, inputs: ProgramInputs) -> None:
    """Write the files that the code names into the folder and add them to the inputs.

    Writing them costs as much as the conversation is long, so a program that does not name them gets none.
    """
    for name, write in ((TIMELINE, _encode_timeline), (SOURCES, _encode_sources)):
        if name in code:
            data, left_out = await write(context)
            await asyncio.to_thread((folder / name).write_bytes, data)
            inputs.files[name] = folder / name
            inputs.omitted += [f"{name}: its {left_out} oldest items"] if left_out else []


async def _encode_timeline(context: ToolContext) -> tuple[bytes, int]:
    views = context.timeline.views
    blocks: list[bytes] = []
    size, last = 0, views.tail
    while last > 0:
        seqs = range(max(1, last - _BATCH + 1), last + 1)
        for entry in reversed(await context.timeline.entries(seqs)):
            blocks.append(_without_hosting(timeline_block(entry, views)))
            size += len(blocks[-1])
            if size > MAX_BYTES:
                return _join(timeline_head(context.conversation, views), blocks[:-1], timeline_foot(views)), entry.seq
        last = seqs.start - 1
    return _join(timeline_head(context.conversation, views), blocks, timeline_foot(views)), 0


async def _encode_sources(context: ToolContext) -> tuple[bytes, int]:
    """Return the rows without hosting details; `fetch_ctx` brings a body that is stored apart."""
    rows: list[bytes] = []
    size, pool = 0, context.timeline.views.sources.pool.list_rows()
    for row in reversed(pool):
        hidden = (*_HOSTING, "content") if isinstance(row.content, BlobRef) else _HOSTING
        rows.append(msgspec.json.encode({k: v for k, v in row_to_json(row).items() if k not in hidden}))
        size += len(rows[-1])
        if size > MAX_BYTES:
            rows.pop()
            break
    return _join(sources_head(context.conversation), rows, sources_foot()), len(pool) - len(rows)


def _join(head: bytes, newest_first: Sequence[bytes], foot: bytes) -> bytes:
    items: Iterable[bytes] = reversed(newest_first)
    return head + b",".join(items) + foot


def _without_hosting(data: bytes) -> bytes:
    """Return the block without the places where its file is hosted, which a program must not see."""
    try:
        block = _JSON.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        # A foreign object that msgspec cannot decode is exported unchanged.
        return data
    meta = block.get("meta")
    if isinstance(meta, dict):
        block["meta"] = {k: v for k, v in cast(dict[str, object], meta).items() if k not in _HOSTING}
    return msgspec.json.encode(block)
