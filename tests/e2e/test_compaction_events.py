"""`timeloom chat` tells of compactions: as events in JSON, and in a line for people."""

import json
from pathlib import Path

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers, calls


def talk(tmp_path: Path, *options: str) -> tuple[str, str]:
    stage = ChatHarness(tmp_path)
    look = calls("react.write", path="files/a.md", content="word and word " * 600)
    said: dict[str, object] = {"reply": "The user asks.", "when": "compaction", "repeat": True}
    stage.script(*[look, answers("done")] * 9, {"reply": "Asking", "when": "title"}, said)
    (tmp_path / "timeloom.toml").write_text("[models]\nwindow_tokens = 16000\n")
    done = stage.run("chat", "--config", str(tmp_path / "timeloom.toml"), *options, typed="ask\n" * 9)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_compaction_is_an_event_with_its_tokens(tmp_path: Path) -> None:
    out, _ = talk(tmp_path, "--json")
    events = [json.loads(line) for line in out.splitlines()]
    told = [event for event in events if event["event"] == "chat.compaction"]
    assert [event["status"] for event in told[:2]] == ["started", "completed"]
    assert told[1]["before_tokens"] == told[0]["before_tokens"] > told[1]["after_tokens"] > 0
    texts = [event["block"]["text"] for event in events if event.get("block", {}).get("type") == "conv.range.summary"]
    assert texts
    assert texts[0].startswith("The user asks.\n\n## Covered")


def test_people_are_told_in_a_line(tmp_path: Path) -> None:
    _, err = talk(tmp_path)
    assert "older parts of the conversation were summarized: " in err


def test_a_line_of_a_pipe_that_begins_with_a_slash_is_a_command_or_an_error(tmp_path: Path) -> None:
    stage = ChatHarness(tmp_path)
    said: dict[str, object] = {"reply": "The user asks.", "when": "compaction", "repeat": True}
    stage.script(*[answers("word " * 300)] * 4, {"reply": "Asking", "when": "title"}, said)
    done = stage.run("chat", typed="ask\n/compact\nask\nask\n/compact the prices\n//compact\n")
    assert (done.returncode, done.stdout.count("word \n")) == (0, 4)
    assert "nothing to compact: the conversation has nothing before the newest 2 rounds" in done.stderr
    assert "compacted 1 turn: " in done.stderr
    stage.script(answers("done"), {"reply": "Asking", "when": "title"}, said)
    done = stage.run(
        "chat",
        typed=f"/sources\n/compact {'x' * 2_001}\nask\n",
    )
    assert (done.returncode, done.stdout) == (2, "done\n")
    assert "/sources needs a terminal, or is unknown: only /compact is a command here" in done.stderr
    assert "the focus has at most 2000 characters" in done.stderr
