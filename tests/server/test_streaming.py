"""Streams: a reader assembles the timeline with each block once, also after lost connections."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

from typing_extensions import override

from tests.harness.replies import answers, slow_reply
from tests.server.server_harness import (
    CHAT,
    LIST,
    ApiClient,
    ServerHarness,
    SseFrame,
    blocks_in,
    calls,
    number_blocks,
    run,
)
from timeloom.app import open_session
from timeloom.core.blocks import ConversationStarted, Titled
from timeloom.core.ids import ConversationId
from timeloom.core.timeline import NO_TURN
from timeloom.ports.tool import ToolContext
from timeloom.tools.define import tool
from timeloom.tools.registry import ToolRegistry

LONG = [slow_reply(calls("t.look", size=n), delay_ms=3) for n in range(1, 9)]


def test_a_whole_turn_over_a_stream_is_the_timeline(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(
            tmp_path, calls("t.look"), calls("react.write", path="a.md", content="text"), answers("Four.")
        )
        async with stage.serve() as served:
            async with served.ann.post_and_stream("What is two and two?") as events:
                heard = [frame async for frame in events]
            assert heard[0].event == "conv.status"
            conversation = str(heard[0].data["conversation_id"])
            blocks = await served.ann.blocks(conversation)
            told = blocks_in(heard)
            # The title comes after the turn has ended.
            assert told == number_blocks(blocks)[: len(told)]
            assert [block["type"] for block in blocks[len(told) :]] == ["conv.title"]
            end: dict[str, object] = {"turn_id": blocks[-2]["turn_id"], "seq": len(told), "reason": "completed"}
            assert heard[-1] == SseFrame("chat.complete", end)
            names = {frame.event for frame in heard}
            assert names == {"conv.status", "chat.block", "chat.start", "chat.step", "chat.delta", "chat.complete"}

    run(check)


def test_the_deltas_of_an_answer_make_the_answer(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(
            tmp_path, slow_reply(answers("A long answer, piece by piece."), delay_ms=20)
        ).serve() as served:
            async with served.ann.post_and_stream("go") as events:
                heard = [frame.data async for frame in events if frame.event == "chat.delta"]
            assert len(heard) > 2
            assert "".join(str(one["text"]) for one in heard) == "A long answer, piece by piece."
            assert {(one["channel"], one["index"]) for one in heard} == {("answer", 0)}

    run(check)


def test_each_channel_is_told_while_it_is_written(tmp_path: Path) -> None:
    async def check() -> None:
        write = calls("react.write", path="a.md", content="A page.")
        code = calls("exec_tools.execute_code_python", contract=[]) + "<channel:code>print(1)</channel:code>"
        async with ServerHarness(tmp_path, write, code, calls("t.look"), answers("Done.")).serve() as served:
            async with served.ann.post_and_stream("go") as events:
                heard = [frame.data async for frame in events if frame.event == "chat.delta"]
            told: dict[object, str] = {}
            for one in heard:
                told[one["channel"]] = told.get(one["channel"], "") + str(one["text"])
            assert told == {
                "thinking": "hm" * 3,
                "timeline_text": "a note" * 3,
                "canvas": "A page.",
                "code": "print(1)",
                "tool": "looking",
                "answer": "Done.",
            }

    run(check)


def test_the_text_of_a_file_names_its_path_and_type(tmp_path: Path) -> None:
    async def check() -> None:
        replies = (
            calls("react.write", path="a.html", content="<p>A page.</p>"),
            calls("react.write", path="outputs/b", channel="timeline_text", content="A short text."),
            calls("react.write", path="../c.md", channel="timeline_text", content="A way out."),
        )
        async with ServerHarness(tmp_path, *replies, answers("Done.")).serve() as served:
            async with served.ann.post_and_stream("go") as events:
                heard = [frame.data async for frame in events if frame.event == "chat.delta"]
            turn = heard[0]["turn_id"]
            told = {(one["channel"], one.get("path"), one.get("mime")) for one in heard}
            assert told >= {
                ("canvas", f"fi:{turn}.files/a.html", "text/html"),
                ("timeline_text", f"fi:{turn}.outputs/b", "text/plain"),
                ("canvas", None, None),
                ("timeline_text", None, None),
                ("answer", None, None),
            }

    run(check)


class Saying(ServerHarness):
    """A stage with a tool that says something and ends when that was heard."""

    @override
    def registry(self) -> ToolRegistry:
        async def say(context: ToolContext) -> str:
            """Says."""
            context.emit("stdout", "halfway\n")
            await self.flooding.wait()
            return "done"

        return super().registry().with_tools([tool("t.say", effect="pure")(say)])


def test_what_a_tool_says_is_heard_while_it_runs(tmp_path: Path) -> None:
    async def check() -> None:
        stage = Saying(tmp_path, calls("t.say"), answers("Done."))
        async with stage.serve() as served, served.ann.post_and_stream("go") as events:
            async for frame in events:
                if frame.event == "chat.delta" and frame.data["channel"] == "stdout":
                    assert frame.data["text"] == "halfway\n"
                    stage.flooding.set()
            assert stage.flooding.is_set()

    run(check)


def test_a_large_answer_is_whole_in_its_block(tmp_path: Path) -> None:
    async def check() -> None:
        large = "long " * 20_000
        async with ServerHarness(tmp_path, answers(large)).serve() as served:
            async with served.ann.post_and_stream("go") as events:
                heard = [frame async for frame in events]
            blocks = await served.ann.blocks(str(heard[0].data["conversation_id"]))
            (answer,) = [block for block in blocks if block["type"] == "assistant.completion"]
            assert answer["text"] == large
            assert answer in [block for _, block in blocks_in(heard)]

    run(check)


async def assembled(client: ApiClient, conversation: str) -> tuple[list[tuple[int, object]], int]:
    """Return the events of a client that loses its connection after every event, and its number of reconnects."""
    held: list[tuple[int, object]] = []
    returns = 0
    while True:
        returns += 1
        async with client.stream_conversation(conversation, held[-1][0] if held else 0) as events:
            async for frame in events:
                if frame.event == "conv.status":
                    if frame.data["state"] == "idle" and frame.data["tail"] == len(held):
                        return held, returns
                    continue
                held += blocks_in([frame])
                break


def test_a_stream_that_is_lost_after_every_event_of_a_long_turn_has_each_block_once(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, *LONG, slow_reply(answers("Done."), delay_ms=3)).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            held, returns = await assembled(served.ann, conversation)
            assert held == number_blocks(await served.ann.blocks(conversation))
            assert returns >= len(held) > 60

    run(check)


def test_a_stream_can_be_cut_at_every_event_of_a_turn_that_is_over(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, *LONG[:2], answers("Done.")).serve() as served:
            async with served.ann.post_and_stream("go") as events:
                conversation = str((await anext(events)).data["conversation_id"])
                whole = [frame async for frame in events]
            await served.ann.wait_for_state(conversation, "idle")
            blocks = number_blocks(await served.ann.blocks(conversation))
            stored = [frame for frame in whole if frame.event not in ("chat.delta", "conv.status")]
            for count in range(1, len(stored)):
                held = blocks_in(stored[:count])
                async with served.ann.stream_conversation(conversation, held[-1][0] if held else 0) as events:
                    async for frame in events:
                        held += blocks_in([frame])
                        if len(held) == len(blocks):
                            break
                assert held == blocks

    run(check)


def test_many_readers_hear_the_same_while_a_turn_runs(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, *LONG[:3], answers("Done.")).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])

            async def listen() -> list[tuple[int, object]]:
                heard: list[SseFrame] = []
                async with served.ann.stream_conversation(conversation) as events:
                    async for frame in events:
                        heard.append(frame)
                        if frame.event == "chat.complete":
                            return blocks_in(heard)
                return []

            first, *others = await asyncio.gather(*(listen() for _ in range(8)))
            assert first
            assert all(one == first for one in others)

    run(check)


def test_a_reader_hears_what_another_process_writes(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path)
        header = ConversationStarted(tenant="home", project="demo", user="ann")
        async with stage.serve() as served, await open_session(stage.store, None, header) as session:
            async with served.ann.stream_conversation(session.conversation) as events:
                assert (await anext(events)).event == "conv.status"
                assert (await anext(events)).id == 1
                await session.append([Titled(text="Elsewhere")], NO_TURN)
                heard = [frame async for frame in _until(events, 2)]
                assert blocks_in(heard)[-1][0] == 2
            # It is held there, and cannot be written to here.
            response = await served.ann.post(CHAT, {"message": "go", "conversation_id": session.conversation})
            assert (response.status_code, response.json()["code"]) == (409, "conversation_held")

    run(check)


async def _until(events: AsyncIterator[SseFrame], seq: int) -> AsyncIterator[SseFrame]:
    async for frame in events:
        yield frame
        if frame.id == seq:
            return


def test_a_stream_after_a_block_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            for said, code in (
                ("999", "cursor_malformed"),
                ("x", "request_malformed"),
                ("9" * 40, "request_malformed"),
            ):
                headers = served.ann.headers | {"last-event-id": said}
                response = await served.http.get(f"{CHAT}/{conversation}/stream", headers=headers)
                assert (response.status_code, response.json()["code"]) == (400, code)

    run(check)


def test_a_silent_stream_says_that_it_is_alive(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done."), beat_s=0.02).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            url = f"{CHAT}/{conversation}/stream"
            async with served.http.stream("GET", url, headers=served.ann.headers) as response:
                beats = 0
                async for line in response.aiter_lines():
                    beats += line.startswith(":")
                    if beats == 3:
                        break

    run(check)


def test_a_reader_that_falls_behind_is_told_so_and_comes_back_for_the_rest(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.flood"), answers("Done."), reader_bytes=100_000)
        stage.leave_s = 60.0
        async with stage.serve(small_buffers=True) as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await stage.waiting.wait()
            host, port = served.url.removeprefix("http://").split(":")
            sleeper = socket.socket()
            sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sleeper.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(sleeper, (host, int(port)))
            head = f"GET {CHAT}/{conversation}/stream HTTP/1.0\r\nhost: x\r\nauthorization: Bearer ann\r\n\r\n"
            await loop.sock_sendall(sleeper, head.encode())
            # One that reads a little and then sleeps.
            said = await loop.sock_recv(sleeper, 1024)
            stage.flooding.set()
            await served.ann.wait_for_state(conversation, "idle")
            while chunk := await loop.sock_recv(sleeper, 65_536):
                said += chunk
            sleeper.close()
            last = said[said.rindex(b"event: ") :].split(b"\n")
            assert last[0] == b"event: chat.error"
            assert json.loads(last[1].removeprefix(b"data: "))["code"] == "reader_too_slow"
            held, _ = await assembled(served.ann, conversation)
            assert held == number_blocks(await served.ann.blocks(conversation))

    run(check)


def test_the_stream_of_a_deleted_conversation_ends(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, answers("Done.")).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            async with served.ann.stream_conversation(conversation) as events:
                assert (await anext(events)).event == "conv.status"
                gone = await served.http.delete(f"{LIST}/{conversation}", headers=served.ann.headers)
                assert gone.status_code == 204
                heard = [frame async for frame in events]
            assert (heard[-1].event, heard[-1].data["code"]) == ("chat.error", "conversation_unknown")
            assert (await served.ann.get(f"{LIST}/{conversation}")).status_code == 404
            assert await stage_conversations(served.ann) == []

    run(check)


async def stage_conversations(client: ApiClient) -> list[ConversationId]:
    return [one["id"] for one in (await client.get(LIST)).json()["conversations"]]
