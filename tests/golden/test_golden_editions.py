"""Every golden log renders in every edition, and each edition renders it the same in one go and entry by entry."""

import asyncio
import shutil
from pathlib import Path

import pytest

from timeloom.core.blocks.extract_payloads import find_blob_refs
from timeloom.core.payload import BlobRef
from timeloom.core.render.editions import EDITIONS, renderer_for
from timeloom.core.render.prompt import PromptView
from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views, fold
from timeloom.stores.sqlite import SqliteStore

FOLDERS = sorted(path for path in (Path(__file__).parent / "logs").iterdir() if path.is_dir())
Log = tuple[list[Entry], dict[BlobRef, bytes]]


async def load(folder: Path) -> list[Log]:
    """The entries and the payloads of each conversation in the folder."""
    logs: list[Log] = []
    async with await SqliteStore.open(folder) as store:
        for name in await store.conversation_ids():
            entries, tenant = list(await store.load(name)), (await store.info(name)).tenant
            refs = {ref for entry in entries for ref in find_blob_refs(entry)}
            logs.append((entries, {ref: await store.read_blob(tenant, ref) for ref in refs}))
    return logs


@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_golden_log_renders_in_every_edition(folder: Path, edition: int, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "data")
    renderer = renderer_for(edition)
    for entries, payloads in asyncio.run(load(tmp_path / "data")):
        grown, views = PromptView(renderer=renderer), Views()
        for entry in entries:
            views.add(entry)
            grown.add(entry, views, payloads)
        opened, whole = PromptView(views.tail, renderer), fold(entries)
        for seq, stub in whole.visible.shown.items():
            opened.append_visible(seq, stub, entries[(stub.by if stub else seq) - 1], whole, payloads)
        assert opened.segments() == grown.segments()
