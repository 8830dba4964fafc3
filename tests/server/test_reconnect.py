"""A client that loses its connection after every single event, over restarts of the server: it misses nothing."""

import asyncio
import json
from pathlib import Path

import pytest
from server_stage import Client, Json, Stage, Step, answers, calls, numbered, run, slowly
from typing_extensions import override

from timeloom.ports.tool import ToolContext
from timeloom.providers.script_file import parse_script
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing import ScriptedModel
from timeloom.tools.define import tool
from timeloom.tools.registry import ToolRegistry

WINDOW_TOKENS = 8_000
"""So few that the turn has to be summed up on its way."""

MEETS = [slowly(calls("t.meet", size=400), 1, 24) for _ in range(10)]
WRITE = slowly(calls("react.write", path="a.md", content="A page of text. " * 20), 1, 24)
TURN: tuple[Step, ...] = (*MEETS, WRITE, *MEETS, slowly(answers("Done, after a while."), 1))


class Losing:
    """What a client has that loses its connection after every event, and comes back with the last id it has."""

    def __init__(self) -> None:
        self.held: list[tuple[int, object]] = []
        self.returns = 0
        self.seen: set[str] = set()
        self.at = 0
        """The tail of which it was told last, if it had everything up to there."""
        self.moved = asyncio.Event()
        """Set whenever that has changed."""

    async def listen(self, client: Client, conversation: str, most: int) -> bool:
        """Takes in events until there are so many blocks, or until the conversation rests and all of it is here."""
        while len(self.held) < most:
            self.returns += 1
            async with client.hearing(conversation, len(self.held)) as events:
                async for frame in events:
                    if frame.event != "conv.status":
                        self.seen.add(frame.event)
                        if frame.event == "chat.block":
                            self.held.append((frame.id, frame.data["block"]))
                        break
                    if frame.data["tail"] == len(self.held):
                        self.at = len(self.held)
                        self.moved.set()
                        if frame.data["state"] == "idle":
                            return True
        return False


class Meeting(Stage):
    """A stage with a tool that waits for the client, so that some of what happens is told to it live."""

    def __init__(self, folder: Path, losing: Losing) -> None:
        super().__init__(folder)
        self.model = ScriptedModel(parse_script(json.dumps(TURN)), window_tokens=WINDOW_TOKENS)
        self._losing = losing

    @override
    def registry(self) -> ToolRegistry:
        async def meet(context: ToolContext, size: int) -> str:
            """Meets."""
            while self._losing.at != context.timeline.views.tail:
                self._losing.moved.clear()
                await self._losing.moved.wait()
            context.emit("tool", "met")
            return "x " * size

        return super().registry().and_also([tool("t.meet", effect="pure")(meet)])


@pytest.mark.parametrize("restarts", [(), (20, 50, 90)], ids=["one server", "four servers"])
def test_what_a_client_assembles_is_the_timeline_wherever_it_was_cut_off(
    tmp_path: Path, restarts: tuple[int, ...]
) -> None:
    async def check() -> None:
        losing, conversation, blocks = Losing(), "", list[Json]()
        stage = Meeting(tmp_path, losing)
        for most in (*restarts, 10_000):
            async with await SqliteStore.open(tmp_path / "data") as stage.store, stage.serve(recovers=True) as served:
                conversation = conversation or str((await served.ann.say("go"))["conversation_id"])
                is_over = await losing.listen(served.ann, conversation, most)
                assert is_over == (most == 10_000)
                blocks = await served.ann.blocks(conversation)
                # A title comes when the turn is over already.
                await losing.listen(served.ann, conversation, len(blocks) if is_over else 0)
                assert losing.held == numbered(blocks)[: len(losing.held)]
        assert losing.held == numbered(blocks)
        types = [block["type"] for block in blocks]
        assert types.count("turn.header") == types.count("react.turn.end") == 1
        assert "conv.range.summary" in types
        assert losing.returns > len(blocks) > 120
        assert {"chat.block", "chat.delta"} <= losing.seen

    run(check)
