"""Acknowledged entries survive a power cut at any moment, on a disk that keeps only synced data."""

import asyncio
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.crash.forgetful_disk import DiskRecorder, RecordingDisk, RecordingVfs
from timeloom.core.blocks import Attachment, Titled, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Draft, Entry
from timeloom.ports.reader import ConversationUnknownError
from timeloom.stores.sqlite import SqliteStore, writer
from timeloom.testing.store_contract.fixtures import PATH, draft, header, thought

SEEDS = range(int(os.environ.get("TIMELOOM_CRASH_SEEDS", "4")))
CUTS = int(os.environ.get("TIMELOOM_POWER_CUTS", "30"))


@dataclass
class History:
    """The acknowledged entries, each with the number of disk operations up to then."""

    recorder: DiskRecorder
    appended: list[tuple[int, ConversationId, tuple[Entry, ...]]] = field(
        default_factory=list[tuple[int, ConversationId, tuple[Entry, ...]]]
    )
    deleting: dict[ConversationId, int] = field(default_factory=dict[ConversationId, int])
    deleted: dict[ConversationId, int] = field(default_factory=dict[ConversationId, int])


@pytest.fixture(autouse=True)
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints come often, so that cuts fall into them too."""
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 20)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_survives_a_power_cut(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    history = asyncio.run(live(tmp_path / "disk", chance))
    for n in range(CUTS):
        at = chance.randint(0, history.recorder.now)
        after = tmp_path / f"after_{n}"
        history.recorder.after_power_cut(at, chance, after)
        assert asyncio.run(lost(after, history, at)) == []


@pytest.mark.parametrize("forgets", ["file", "folder", "database"])
def test_the_model_notices_a_sync_that_is_left_out(forgets: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    history = asyncio.run(live(tmp_path / "disk", chance, forgets))
    for n in range(100):
        at = chance.randint(history.recorder.now // 2, history.recorder.now)
        after = tmp_path / f"after_{n}"
        history.recorder.after_power_cut(at, chance, after)
        if asyncio.run(lost(after, history, at)):
            return
    pytest.fail(f"a store that does not sync ({forgets}) lost nothing in 100 power cuts")


async def live(folder: Path, chance: random.Random, forgets: str = "") -> History:
    """A store's short life: several writers, payloads that repeat, a delete, closing and opening again."""
    recorder = DiskRecorder(folder)
    history = History(recorder)
    vfs = RecordingVfs(f"recording-{folder}", recorder, forgets)
    try:
        for life in range(2):
            store = await SqliteStore.open(folder, vfs=vfs.name, disk=RecordingDisk(recorder, forgets))
            names = [ConversationId(f"conv_{life}_{n}") for n in range(4)]
            await asyncio.gather(*(converse(store, history, name, chance) for name in names))
            history.deleting[names[0]] = recorder.now
            await store.delete(names[0])
            history.deleted[names[0]] = recorder.now
            await store.close()
    finally:
        vfs.unregister()
    return history


async def converse(store: SqliteStore, history: History, name: ConversationId, chance: random.Random) -> None:
    tail = 0
    for n in range(12):
        drafts = [header()] if n == 0 else [random_draft(chance) for _ in range(chance.randint(1, 3))]
        entries = await store.append(name, tail, drafts)
        tail = entries[-1].seq
        history.appended.append((history.recorder.now, name, entries))


def random_draft(chance: random.Random) -> Draft:
    size = chance.choice([10, 600, 5000, 17_000, 40_000])
    match chance.randrange(4):
        case 0:
            return thought(f"{chance.random()} " + "x" * size)
        case 1:
            # One of few, so that payloads are shared between conversations and outlive a delete.
            return draft(Attachment(artifact_path=PATH, mime="a/b", data=bytes([chance.randrange(3)]) * 100))
        case 2:
            return draft(UserPrompt(text="words " * (size // 6 + 1)))
        case _:
            return draft(Titled(text=f"title {chance.random()}"))


async def lost(folder: Path, history: History, at: int) -> list[str]:
    """Return the problems of the store in that folder, given the entries acknowledged at that moment."""
    try:
        async with await SqliteStore.open(folder) as store:
            wrong = [finding.message for finding in (await store.verify()).findings]
            for when, name, entries in history.appended:
                if when <= at:
                    wrong += await missing(store, history, at, name, entries)
            for name, when in history.deleted.items():
                if when <= at and await is_there(store, name):
                    wrong.append(f"{name} was deleted and is back")
            return wrong
    except CodedError as error:
        return [str(error)]


async def missing(
    store: SqliteStore, history: History, at: int, name: ConversationId, entries: tuple[Entry, ...]
) -> list[str]:
    if history.deleting.get(name, at + 1) <= at and not await is_there(store, name):
        return []
    found = await store.load(name, entries[0].seq - 1, len(entries))
    return [] if found == list(entries) else [f"{name} has lost entries from {entries[0].seq}"]


async def is_there(store: SqliteStore, name: ConversationId) -> bool:
    try:
        await store.info(name)
    except ConversationUnknownError:
        return False
    return True
