"""A client that loses its connection after every single event, over restarts of the server: it misses nothing."""

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest
from typing_extensions import override

from tests.harness.replies import answers, slow_reply
from tests.server.server_harness import (
    ApiClient,
    Json,
    ServerHarness,
    SseFrame,
    Step,
    blocks_in,
    calls,
    number_blocks,
    run,
)
from timeloom.core.blocks import ToolTraits
from timeloom.ports.tool import ToolContext
from timeloom.providers.script_file import parse_script
from timeloom.stores.sqlite import SqliteStore
from timeloom.testing import ScriptedModel
from timeloom.tools.define import tool
from timeloom.tools.registry import ToolRegistry

WINDOW_TOKENS = 8_000
"""So few that the turn has to be summed up on its way."""

MEETS = [slow_reply(calls("t.meet", size=400), delay_ms=1, chunk=24) for _ in range(10)]
PAGE = "A page of text. " * 20
WRITE = slow_reply(calls("react.write", path="a.md", content=PAGE), delay_ms=1, chunk=24)
ANSWER = "Done, after a while."
TURN: tuple[Step, ...] = (*MEETS, WRITE, *MEETS, slow_reply(answers(ANSWER), delay_ms=1))
WRITTEN = {"thinking": "hm", "timeline_text": "a note", "canvas": PAGE, "tool": "met", "answer": ANSWER}
"""Return the text of each channel over all rounds."""


class Losing:
    """Return the events of a client that reconnects with its last id after every event."""

    def __init__(self) -> None:
        self.held: list[tuple[int, object]] = []
        self.returns = 0
        self.seen: set[str] = set()
        self.at = 0
        """The tail of which it was told last, if it had everything up to there."""
        self.moved = asyncio.Event()
        """Set whenever that has changed."""

    async def listen(self, client: ApiClient, conversation: str, most: int) -> bool:
        """Takes in events until there are so many blocks, or until the conversation rests and all of it is here."""
        while len(self.held) < most:
            self.returns += 1
            async with client.stream_conversation(conversation, len(self.held)) as events:
                async for frame in events:
                    if frame.event != "conv.status":
                        self.seen.add(frame.event)
                        if frame.event == "chat.block":
                            self.held.append((frame.id, frame.data["block"]))
                        elif frame.event == "chat.delta":
                            # Whoever comes has it from its beginning.
                            assert WRITTEN[str(frame.data["channel"])].startswith(str(frame.data["text"]))
                        break
                    if frame.data["tail"] == len(self.held):
                        self.at = len(self.held)
                        self.moved.set()
                        if frame.data["state"] == "idle":
                            return True
        return False


class Meeting(ServerHarness):
    """A server harness with a tool that waits for the client, so that the client receives some events live."""

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

        return super().registry().with_tools([tool("t.meet", effect="pure", traits=ToolTraits(polled=True))(meet)])


@pytest.mark.parametrize("restarts", [(), (20, 50, 90)], ids=["one server", "four servers"])
def test_what_a_client_assembles_is_the_timeline_wherever_it_was_cut_off(
    tmp_path: Path, restarts: tuple[int, ...]
) -> None:
    async def check() -> None:
        losing, conversation, blocks = Losing(), "", list[Json]()
        stage = Meeting(tmp_path, losing)
        for most in (*restarts, 10_000):
            async with await SqliteStore.open(tmp_path / "data") as stage.store, stage.serve(recovers=True) as served:
                conversation = conversation or str((await served.ann.send_message("go"))["conversation_id"])
                is_over = await losing.listen(served.ann, conversation, most)
                assert is_over == (most == 10_000)
                blocks = await served.ann.blocks(conversation)
                # A title comes when the turn is over already.
                await losing.listen(served.ann, conversation, len(blocks) if is_over else 0)
                assert losing.held == number_blocks(blocks)[: len(losing.held)]
        assert losing.held == number_blocks(blocks)
        types = [block["type"] for block in blocks]
        assert types.count("turn.header") == types.count("react.turn.end") == 1
        assert "conv.range.summary" in types
        assert losing.returns > len(blocks) > 120
        assert {"chat.block", "chat.delta"} <= losing.seen

    run(check)


ENDS = {
    "react.thinking": "thinking",
    "react.notes": "timeline_text",
    "react.tool.call": "tool",
    "react.tool.result": "canvas",
    "assistant.completion": "answer",
}
ALL_END = {"react.round.start", "react.model.call", "react.turn.end"}


class Reader:
    """Return the events of a reader that keeps its connection, as documented."""

    def __init__(self) -> None:
        self.open: dict[str, str] = {}
        self.ended: dict[tuple[int, str], str] = {}
        """By block and channel, the text that was on its way when the block came."""

    def hear(self, frame: SseFrame) -> None:
        if frame.event == "chat.delta":
            channel = str(frame.data["channel"])
            self.open[channel] = self.open.get(channel, "") + str(frame.data["text"])
        for seq, block in blocks_in([frame]):
            kind = str(cast(Json, block)["type"])
            for channel in tuple(self.open) if kind in ALL_END else (ENDS.get(kind, ""),):
                if text := self.open.pop(channel, ""):
                    self.ended[seq, channel] = text


def test_whoever_joins_at_whatever_event_has_what_is_being_written_whole(tmp_path: Path) -> None:
    writes = [
        slow_reply(calls("t.look"), delay_ms=2, chunk=16),
        slow_reply(calls("react.write", path="a.md", content=PAGE), delay_ms=2, chunk=40),
    ]

    async def check() -> None:
        async with ServerHarness(tmp_path, *writes, slow_reply(answers(ANSWER), delay_ms=2, chunk=4)).serve() as served:

            async def join(after: int) -> Reader:
                reader = Reader()
                async with served.ann.stream_conversation(conversation, after) as events:
                    async for frame in events:
                        reader.hear(frame)
                        if frame.event == "chat.complete":
                            break
                return reader

            first, conversation, others = Reader(), "", list[asyncio.Task[Reader]]()
            async with served.ann.post_and_stream("go") as events:
                async for frame in events:
                    first.hear(frame)
                    conversation = conversation or str(frame.data["conversation_id"])
                    if frame.event != "chat.complete":
                        # Every other one brings along the blocks that there are.
                        held = max((seq for seq, _ in first.ended), default=0) if len(others) % 2 else 0
                        others.append(asyncio.create_task(join(held)))
            blocks = await served.ann.blocks(conversation)
            for reader in [first, *await asyncio.gather(*others)]:
                assert reader.open == {}
                for place, text in reader.ended.items():
                    assert text == first.ended[place]
            told = {(channel, text) for (_, channel), text in first.ended.items()}
            assert told == {*WRITTEN.items()} - {("tool", "met")} | {("tool", "looking")}
            texts = [block.get("text") for block in blocks]
            assert {text for channel, text in told if channel != "tool"} <= {*texts}

    run(check)
