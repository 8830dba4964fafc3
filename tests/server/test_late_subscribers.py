"""Subscribers who join in the middle of a round receive the partial text from its beginning, once."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

from typing_extensions import override

from tests.harness.replies import answers
from tests.server.server_harness import ApiClient, Json, ServerHarness, SseFrame, calls, run
from tests.server.test_socketio import connected
from tests.server.test_websocket import opened
from timeloom.core.ids import ConversationId
from timeloom.ports.model import FinishEvent, ModelEvent, ModelRequest
from timeloom.ports.tool import ToolContext
from timeloom.providers.script_file import parse_script
from timeloom.runtime.hub.events import ConvStatus
from timeloom.stores.in_memory.store import MemoryStore
from timeloom.testing import ScriptedModel
from timeloom.tools.define import tool
from timeloom.tools.registry import ToolRegistry

ANSWER = "An answer that nobody heard while it was written."
THOUGHT = "A thought before it."
REPLY = f"<channel:thinking>{THOUGHT}</channel:thinking>\n{answers(ANSWER)}"
WHOLE = {"thinking": THOUGHT, "answer": ANSWER}


class PausingModel(ScriptedModel):
    """A model whose reply stays unfinished until the test releases it."""

    def __init__(self, *steps: str) -> None:
        super().__init__(parse_script(json.dumps([{"reply": step, "chunk": 7} for step in steps])))
        self.written = asyncio.Event()
        self.goes_on = asyncio.Event()

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        async for event in super().stream(request):
            if isinstance(event, FinishEvent):
                self.written.set()
                await self.goes_on.wait()
            yield event


class Pausing(ServerHarness):
    """A stage with such a model, and a conversation in which it has written."""

    def __init__(self, folder: Path, *steps: str) -> None:
        super().__init__(folder)
        self.paused = PausingModel(*(steps or (REPLY,)))
        self.model = self.paused

    async def begin(self, client: ApiClient) -> str:
        conversation = str((await client.send_message("go"))["conversation_id"])
        await self.paused.written.wait()
        return conversation


def texts(heard: list[Json]) -> dict[str, str]:
    """Return the text of the deltas by channel."""
    found: dict[str, str] = {}
    for one in heard:
        assert "cut" not in one
        found[str(one["channel"])] = found.get(str(one["channel"]), "") + str(one["text"])
    return found


async def joined(client: ApiClient, conversation: str, after: int = 0) -> tuple[list[Json], int]:
    """Return the deltas that a reader receives up to the whole answer, and the number of blocks before it."""
    heard: list[Json] = []
    blocks = 0
    async with client.stream_conversation(conversation, after) as events:
        async for frame in events:
            if frame.event == "chat.block":
                assert not heard
                blocks += 1
            elif frame.event == "chat.delta":
                heard.append(frame.data)
                if texts(heard) == WHOLE:
                    break
    return heard, blocks


async def rest(events: AsyncIterator[SseFrame]) -> list[SseFrame]:
    """Return the events up to the end of the turn."""
    heard: list[SseFrame] = []
    async for frame in events:
        heard.append(frame)
        if frame.event == "chat.complete":
            break
    return heard


def deltas(heard: list[SseFrame]) -> list[Json]:
    return [frame.data for frame in heard if frame.event == "chat.delta"]


def test_what_was_written_while_nobody_listened_is_told_after_the_blocks(tmp_path: Path) -> None:
    async def check() -> None:
        stage = Pausing(tmp_path)
        async with stage.serve() as served:
            conversation = await stage.begin(served.ann)
            stored = len(await served.ann.blocks(conversation))
            for after, missed in ((0, stored), (stored, 0), (stored - 2, 2)):
                heard, blocks = await joined(served.ann, conversation, after)
                assert blocks == missed
                assert [one["channel"] for one in heard] == ["thinking", "answer"]
            stage.paused.goes_on.set()
            await served.ann.wait_for_state(conversation, "idle")
            said = [block.get("text") for block in await served.ann.blocks(conversation)]
            assert THOUGHT in said
            assert ANSWER in said
            async with served.ann.stream_conversation(conversation) as events:
                assert deltas(await rest(events)) == []

    run(check)


def test_over_sockets_it_is_the_same(tmp_path: Path) -> None:
    async def check() -> None:
        stage = Pausing(tmp_path)
        async with stage.serve() as served:
            conversation = await stage.begin(served.ann)
            heard: list[Json] = []
            async with opened(served, conversation) as socket:
                while texts(heard) != WHOLE:
                    told = json.loads(await socket.recv())
                    heard += [told["data"]] if told["event"] == "chat.delta" else []
            async with connected(served) as friend:
                await friend.join(conversation)
                await friend.until("chat.delta", 2)
                assert texts(friend.all("chat.delta")) == WHOLE

    run(check)


def test_a_follow_up_does_not_end_it_and_whoever_sends_it_hears_the_answer_from_its_beginning(tmp_path: Path) -> None:
    async def check() -> None:
        stage = Pausing(tmp_path, REPLY, answers("And more."))
        async with stage.serve() as served:
            conversation = await stage.begin(served.ann)
            async with served.ann.post_and_stream("And?", conversation) as events:
                heard = [await anext(events) for _ in range(4)]
                assert [frame.event for frame in heard] == ["conv.status", "chat.delta", "chat.delta", "chat.block"]
                assert texts(deltas(heard)) == WHOLE
                await joined(served.ann, conversation)
                stage.paused.goes_on.set()
                heard += await rest(events)
            assert texts(deltas(heard)) == {"thinking": THOUGHT, "answer": f"{ANSWER}And more."}

    run(check)


def test_what_a_steer_interrupted_is_told_until_the_model_is_asked_again(tmp_path: Path) -> None:
    async def check() -> None:
        stage = Pausing(tmp_path, REPLY, answers("Another course."))
        async with stage.serve() as served:
            conversation = await stage.begin(served.ann)
            stage.paused.written.clear()
            await served.ann.send(conversation, "steer", "Another course!")
            await stage.paused.written.wait()
            async with served.ann.stream_conversation(conversation) as events:
                stage.paused.goes_on.set()
                heard = await rest(events)
            assert texts(deltas(heard)) == {"answer": "Another course."}

    run(check)


def test_a_round_that_begins_anew_is_told_from_its_own_beginning(tmp_path: Path) -> None:
    async def check() -> None:
        store, stage = MemoryStore(), Pausing(tmp_path)
        stage.store = store
        async with stage.serve() as served:
            conversation = await stage.begin(served.ann)
            _, blocks = await joined(served.ann, conversation)
        again = Pausing(tmp_path, answers("Anew."))
        again.store = store
        async with again.serve(recovers=True) as served:
            await again.paused.written.wait()
            async with served.ann.stream_conversation(conversation, blocks) as events:
                again.paused.goes_on.set()
                heard = await rest(events)
            assert texts(deltas(heard)) == {"answer": "Anew."}

    run(check)


def test_the_text_of_a_turn_that_was_parked_is_told_no_more(tmp_path: Path) -> None:
    async def check() -> None:
        stage = Pausing(tmp_path)
        async with stage.serve() as served:
            conversation = ConversationId(await stage.begin(served.ann))
            hub, info = served.services.hub, await stage.store.info(conversation)
            async with hub.stream(info, info.tail):
                async with hub.release_temporarily(conversation, stops_turn=True):
                    pass
                async with hub.stream(info, info.tail) as (stream, events):
                    assert [type(await anext(events)) for _ in range(2)] == [ConvStatus, ConvStatus]
                    assert not stream.has_more

    run(check)


def test_half_a_citation_of_a_turn_that_was_parked_is_not_part_of_the_next_reply(tmp_path: Path) -> None:
    half = "As was said [[S:1"

    async def check() -> None:
        stage = Pausing(tmp_path, answers(half))
        async with stage.serve() as served:
            conversation = ConversationId(await stage.begin(served.ann))
            hub, info = served.services.hub, await stage.store.info(conversation)
            async with hub.stream(info, info.tail):
                async with hub.release_temporarily(conversation, stops_turn=True):
                    pass
                stage.paused.goes_on.set()
                async with served.ann.post_and_stream("Go on.", conversation) as events:
                    heard = await rest(events)
            assert texts(deltas(heard)) == {"answer": half}

    run(check)


class Printing(ServerHarness):
    """A server harness with a tool that prints more than is kept, and ends when the test releases it."""

    @override
    def registry(self) -> ToolRegistry:
        async def dump(context: ToolContext) -> str:
            """Prints."""
            for number in range(40):
                context.emit("stdout", f"{number:02}" * 20_000)
            self.waiting.set()
            await self.flooding.wait()
            return "done"

        return super().registry().with_tools([tool("t.dump", effect="pure")(dump)])


def test_of_what_is_too_long_the_end_is_told_and_that_it_was_cut(tmp_path: Path) -> None:
    async def check() -> None:
        stage = Printing(tmp_path, calls("t.dump"), answers("Done."))
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await stage.waiting.wait()
            async with served.ann.stream_conversation(conversation) as events:
                heard = [await anext(events)]
                while not str(heard[-1].data.get("text", "")).endswith("39"):
                    heard.append(await anext(events))
                stage.flooding.set()
            told = deltas(heard)
            assert [one.get("cut", False) for one in told] == [True, *([False] * (len(told) - 1))]
            printed = "".join(f"{number:02}" * 20_000 for number in range(40))
            text = "".join(str(one["text"]) for one in told)
            assert printed.endswith(text)
            assert 900_000 < len(text) < 1_100_000

    run(check)
