"""Streams of edition 2: raw channels reach clients as the fields of a decision do."""

from pathlib import Path

import pytest

from tests.harness.raw_channel_replies import action, raw
from tests.harness.replies import answers, slow_reply
from tests.harness.second_edition import second_edition
from tests.server.server_harness import ServerHarness, Step, calls, run

__all__ = ["second_edition"]

WRITE = '{"action":"call_tool","tool_call":{"tool_id":"react.write","params":{"path":"a.md"}}}'
IN_JSON = (calls("react.write", path="a.md", content="A page.\nIts end."), answers("It is written.\n\nDone."))
IN_CHANNELS = (
    "<channel:thinking>hm</channel:thinking>\n"
    + raw("notes", "a note")
    + action(WRITE)
    + raw("content", "A page.\nIts end."),
    raw("final_answer", "It is written.\n\nDone."),
)


@pytest.mark.parametrize("chunk", [1, 5, 1000])
def test_raw_channels_make_the_same_deltas_as_json(tmp_path: Path, second_edition: int, chunk: int) -> None:
    async def heard(folder: Path, replies: tuple[str, ...]) -> dict[tuple[object, ...], str]:
        steps: list[Step] = [{"reply": reply, "chunk": chunk} for reply in replies]
        stage = ServerHarness(folder, *steps)
        stage.edition = second_edition
        texts: dict[tuple[object, ...], str] = {}
        async with stage.serve() as served, served.ann.post_and_stream("go") as events:
            async for frame in events:
                if frame.event == "chat.delta":
                    data = frame.data
                    path = str(data.get("path", "")).partition(".")[2]
                    key = (data["channel"], data["index"], path, data.get("mime"))
                    texts[key] = texts.get(key, "") + str(data["text"])
        return texts

    async def check() -> None:
        told = await heard(tmp_path / "json", IN_JSON)
        assert await heard(tmp_path / "raw", IN_CHANNELS) == told
        assert told["answer", 0, "", None] == "It is written.\n\nDone."

    run(check)


def test_a_reader_that_joins_in_a_raw_answer_gets_its_beginning(tmp_path: Path, second_edition: int) -> None:
    async def check() -> None:
        text = "A long answer, piece by piece, from its first character to its end."
        stage = ServerHarness(tmp_path, slow_reply(raw("final_answer", text), delay_ms=15, chunk=2))
        stage.edition = second_edition
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            async with served.ann.stream_conversation(conversation) as events:
                async for frame in events:
                    if frame.event == "chat.delta":
                        assert text.startswith(str(frame.data["text"]))
                        break
            answer = ""
            async with served.ann.stream_conversation(conversation) as events:
                async for frame in events:
                    if frame.event == "chat.delta":
                        answer += str(frame.data["text"])
                    elif frame.event == "chat.complete":
                        break
            assert answer == text

    run(check)
