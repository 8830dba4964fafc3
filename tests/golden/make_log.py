"""Makes a golden log: a data folder with every block type, and the list of its expected entries.

    python tests/golden/make_log.py folder v2      the data folder; only until it is released
    python tests/golden/make_log.py expected v2    the list; when the JSON form of a block is changed on purpose

A released folder is never made again: the test is that it still loads. A new block type needs a new folder.
"""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from timeloom.core.blocks import Attachment, ConversationStarted, ForkPoint, Thinking, Titled, UserPrompt
from timeloom.core.blocks.extract_payloads import find_blob_refs, restore_payloads
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.ports.store import Store
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.samples import SAMPLE_HEADER, TS, TURN, sample_drafts
from timeloom.wire.block_json import encode_block

LOGS = Path(__file__).parent / "logs"

ALL = ConversationId("conv_1770603271112_every000")
FORK = ConversationId("conv_1770603271113_fork0000")
OTHER = ConversationId("conv_1770603271114_other000")


async def write_conversations(store: Store) -> None:
    """Write every block type, a fork that shares payloads, and a tenant whose name cannot be a folder name."""
    await store.append(ALL, 0, sample_drafts())
    entries = await store.load(ALL)
    tenant = SAMPLE_HEADER.tenant
    header = ConversationStarted(tenant=tenant, project="demo", user="u", forked_from=ForkPoint(ALL, len(entries)))
    copies = [Draft(entry.turn_id, entry.ts, entry.block, entry.original) for entry in entries[1:12]]
    await store.append(FORK, 0, [Draft(NO_TURN, TS, header), *copies])
    await store.append(FORK, 12, [Draft(NO_TURN, TS, Titled(text="A fork"))])
    other = ConversationStarted(tenant="../Été", project="demo", user="u")
    picture = Attachment(artifact_path=f"fi:{TURN}.user.attachments/a.png", mime="image/png", data=bytes(range(256)))
    original = f'{{"type":"react.thinking","turn_id":"{TURN}","text":"as it came","odd":[1, 2]}}'
    await store.append(
        OTHER,
        0,
        [
            Draft(NO_TURN, TS, other),
            Draft(TURN, TS, UserPrompt(text="Ünïcode 🦊 and a large text: " + "words " * 4000)),
            Draft(TURN, TS, picture),
            Draft(TURN, TS, Thinking(round=1, text="as it came"), original),
        ],
    )


async def list_entries(store: Store) -> AsyncIterator[bytes]:
    """Yield one line per entry: its conversation, sequence number and JSON form with payloads inserted."""
    for name in await store.conversation_ids():
        tenant = (await store.info(name)).tenant
        for entry in await store.load(name):
            payloads = {ref: await store.read_blob(tenant, ref) for ref in find_blob_refs(entry)}
            block = msgspec.Raw(encode_block(restore_payloads(entry, payloads.__getitem__)))
            yield msgspec.json.encode({"conversation": name, "seq": entry.seq, "block": block})


async def make_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    async with await SqliteStore.open(folder) as store:
        await write_conversations(store)
    # Remove files that every open recreates or that git does not keep.
    (folder / "open.lock").unlink()
    (folder / "blobs" / "incoming").rmdir()


async def make_expected(folder: Path) -> None:
    async with await SqliteStore.open(shutil.copytree(folder, folder.with_name("copy"))) as store:
        folder.with_suffix(".jsonl").write_bytes(b"\n".join([line async for line in list_entries(store)]) + b"\n")
    shutil.rmtree(folder.with_name("copy"))


if __name__ == "__main__":
    asyncio.run({"folder": make_folder, "expected": make_expected}[sys.argv[1]](LOGS / sys.argv[2]))
