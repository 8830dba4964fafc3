"""A program in whose folder the disk becomes full while a turn runs: the turn stops, and resumes when there is room.

It prints the states of the conversation, one per line.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from tests.harness.replies import answers
from tests.harness.turn import HEADER, TurnHarness, calls
from timeloom.core.blocks import ConversationStarted
from timeloom.core.ids import ConversationId
from timeloom.core.stream.live_reply import LiveDelta
from timeloom.ports.clock import SystemClock
from timeloom.ports.ids import RandomIds
from timeloom.ports.tool import ToolContext
from timeloom.runtime.hub.events import ConvStatus
from timeloom.runtime.hub.hub import Hub, HubSettings
from timeloom.runtime.session.session import Session
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.stores.sqlite import SqliteStore
from timeloom.tools.define import tool

BLOCK = bytes(4096)


def fill(file: Path) -> None:
    """Fill the disk to its last block."""
    with file.open("wb", buffering=0) as out:
        try:
            while True:
                out.write(BLOCK)
        except OSError:
            return


class _Opener:
    """Opens conversations of the store with the harness's model and tools."""

    def __init__(self, stage: TurnHarness, store: SqliteStore) -> None:
        self._stage = stage
        self._store = store

    async def __call__(
        self, conversation: ConversationId, header: ConversationStarted | None, hear: Callable[[LiveDelta], None]
    ) -> TurnRunner:
        clock, ids = SystemClock(), RandomIds()
        if header:
            session = await Session.start_deferred(self._store, conversation, header, clock, ids)
        else:
            session = await Session.resume(self._store, conversation, clock, ids)
        return await self._stage.open(session)


async def main(folder: Path) -> None:
    stage = TurnHarness(folder, calls("t.fill"), answers("Done."))
    filler = folder / "filler"

    async def fill_disk(context: ToolContext) -> str:
        """Fills the disk and returns a text for which there is no room any more."""
        if not stage.effects:
            fill(filler)
        stage.effects.append(context.tool_call_id)
        return "large " * 20_000

    stage.extra = (tool("t.fill", effect="pure")(fill_disk),)
    async with await SqliteStore.open(folder / "data") as store:
        settings = HubSettings(write_retry_delays_s=(0.05,) * 1_000)
        async with Hub(store, _Opener(stage, store), SystemClock(), RandomIds(), settings) as hub:
            _, stream = await hub.start_and_stream(HEADER, "go")
            async with stream as (_, events):
                async for event in events:
                    if not isinstance(event, ConvStatus):
                        continue
                    print(event.state, hub.last_write_failed, flush=True)
                    if event.state == "interrupted":
                        filler.unlink(missing_ok=True)
                    if event.state == "idle":
                        break
        print(len((await store.verify()).findings), await store.open_turns())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
