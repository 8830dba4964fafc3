"""An erase that a power cut interrupts is done or not done, and doing it again leaves no trace."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from tests.crash.forgetful_disk import DiskRecorder, RecordingDisk, RecordingVfs
from timeloom.core.blocks import Attachment, Titled, TurnEnded, TurnStarted, UserPrompt
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.ports.clock import SystemClock
from timeloom.runtime.erase.erase import EraseRequest, erase
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing.store_contract.fixtures import PATH, draft, header, thought

SEEDS = range(int(os.environ.get("TIMELOOM_CRASH_SEEDS", "2")))
CUTS = int(os.environ.get("TIMELOOM_POWER_CUTS", "30"))
SECRET = "xq7zkw9v"
ERASED, KEPT = ConversationId("conv_a"), ConversationId("conv_b")


@pytest.mark.parametrize("seed", SEEDS)
def test_an_erase_is_done_or_not_after_a_power_cut_and_can_be_done_again(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    recorder, began, kept = asyncio.run(live(tmp_path / "disk"))
    for n in range(CUTS):
        after = tmp_path / f"after_{n}"
        recorder.after_power_cut(chance.randint(began, recorder.now), chance, after)
        asyncio.run(check(after, kept))
        assert [path for path in after.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []


async def live(folder: Path) -> tuple[DiskRecorder, int, list[Entry]]:
    """Two conversations of which one is erased; when the erasure began, and the content of the other."""
    recorder = DiskRecorder(folder)
    vfs = RecordingVfs(f"recording-{folder}", recorder, "")
    try:
        async with await SqliteStore.open(folder, vfs=vfs.name, disk=RecordingDisk(recorder, "")) as store:
            for name, said in ((ERASED, SECRET), (KEPT, "kept")):
                picture = draft(Attachment(artifact_path=PATH, mime="a/b", data=said.encode()))
                large = draft(UserPrompt(text=f"{said} " * 9_000))
                drafts = [draft(TurnStarted(n=1)), large, picture, *(thought(f"{said} {n}") for n in range(50))]
                await store.append(name, 0, [header(), *drafts, draft(TurnEnded(reason="completed"))])
                await store.append(name, len(drafts) + 2, [draft(Titled(text=said))])
            began = recorder.now
            await erase(store, EraseRequest(conversation=ERASED), folder / "workspaces", "ann", SystemClock())
            return recorder, began, await store.load(KEPT)
    finally:
        vfs.unregister()


async def check(folder: Path, kept: list[Entry]) -> None:
    async with await SqliteStore.open(folder) as store:
        assert (await store.verify()).findings == ()
        entries = await store.load(ERASED)
        said = [entry.block.erased for entry in entries if not isinstance(entry.block, TurnStarted)]
        assert len(set(said[1:55])) == 1
        assert await store.load(KEPT) == kept
        await erase(store, EraseRequest(conversation=ERASED), folder / "workspaces", "ann", SystemClock())
        assert (await store.verify()).findings == ()
        assert await store.load(KEPT) == kept
