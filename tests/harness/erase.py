"""Harness for erasure: a conversation on disk with a scripted model, and a search through every file."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.harness.turn import HEADER, TurnHarness
from timeloom.app import open_session
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import Entry
from timeloom.ports.clock import SystemClock
from timeloom.ports.store import Store, StoreProblem
from timeloom.runtime.erase.erase import EraseRequest, ErasureReport, erase
from timeloom.runtime.replay.replay import ReplayedCall, replay
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing import ScriptedModel

SECRET = "xq7zkw9v"
SENTENCE = f"My account number is {SECRET}, keep it safe."


def find_secret(folder: Path, secret: str = SECRET) -> list[str]:
    """Return the files that contain the secret, in upper or lower case."""
    wanted = secret.encode().lower()
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.relative_to(folder).as_posix() for path in files if wanted in path.read_bytes().lower())


class EraseHarness:
    """A conversation on disk, and requests to erase parts of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "data"
        self.turns_harness = TurnHarness(self.folder)
        self.steps: list[str] = []
        self.window_tokens = 200_000
        self.conversation = ConversationId("")

    @property
    def workspaces(self) -> Path:
        return self.turns_harness.setting.workspaces

    async def run_turn(self, store: Store, message: str, *steps: str) -> None:
        """Run one turn in which the model gives these replies."""
        self.steps += steps
        self.turns_harness.model = ScriptedModel(self.steps, window_tokens=self.window_tokens)
        session = await open_session(store, self.conversation or None, HEADER)
        self.conversation = session.conversation
        turns = await self.turns_harness.open(session)
        await turns.run(message)
        await turns.titles.finish()
        await session.close()

    def request(self, *paths: str, quotes: bool = False) -> EraseRequest:
        return EraseRequest(conversation=self.conversation, paths=paths, quotes=quotes)

    async def erase(self, store: Store, *paths: str, quotes: bool = False) -> ErasureReport:
        return await erase(store, self.request(*paths, quotes=quotes), self.workspaces, "ann", SystemClock())

    async def entries(self, store: Store) -> list[Entry]:
        return await store.load(self.conversation)

    async def path_of(self, store: Store, kind: type[object], at: int = 0) -> str:
        """Return the path of a block of that class."""
        return [entry.path for entry in await self.entries(store) if isinstance(entry.block, kind)][at]

    async def replay_calls(self, store: Store) -> tuple[list[ReplayedCall], list[StoreProblem]]:
        found = [one async for one in replay(store, self.conversation)]
        wrong = [one for one in found if isinstance(one, StoreProblem)]
        return [one for one in found if isinstance(one, ReplayedCall)], wrong


def run_on_disk(harness: EraseHarness, check: Callable[[SqliteStore], Awaitable[None]]) -> None:
    """Run the check with the store on disk, then assert that the store verifies without findings."""

    async def run() -> None:
        async with await SqliteStore.open(harness.folder) as store:
            await check(store)
            assert (await store.verify()).findings == ()

    asyncio.run(run())
