"""`timeloom chat` as a person or a program uses it: real processes, a scripted model, a real folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from timeloom_local.provider import DEMO_NOTICE
from timeloom_local.weights import is_installed

SCRIPT = """
- reply: |
    <channel:thinking>Write it down.</channel:thinking>
    <channel:ReactDecisionOutV2>{"action":"call_tool","notes":"Writing.","tool_call":{"tool_id":"react.write",
    "params":{"path":"files/note.md","content":"# Note"}}}</channel:ReactDecisionOutV2>
  chunk: 9
- reply: |
    <channel:ReactDecisionOutV2>{"action":"complete","final_answer":"It is written."}</channel:ReactDecisionOutV2>
- reply: |
    <channel:ReactDecisionOutV2>{"action":"complete","final_answer":"Still there."}</channel:ReactDecisionOutV2>
- reply: <channel:thinking>Nothing.</channel:thinking>
  repeat: 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return tmp_path


def chat(folder: Path, typed: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "timeloom", "chat", "--data-dir", str(folder / "data")]
    model = ["--model", f"script:{folder / 'script.yaml'}"]
    return subprocess.run([*command, *model, *more], input=typed, capture_output=True, text=True, check=False)


def test_the_answer_is_on_standard_output_and_the_work_on_standard_error(folder: Path) -> None:
    done = chat(folder, "write a note\n\n")
    assert (done.returncode, done.stdout) == (0, "It is written.\n")
    assert "→ react.write" in done.stderr
    assert "Writing." in done.stderr


def test_a_conversation_is_gone_on_with_by_its_id(folder: Path) -> None:
    first = chat(folder, "write a note\n")
    conversation = first.stderr.split()[1]
    again = chat(folder, "is it there?\n", "--conversation", conversation)
    assert again.stdout == "Still there.\n"
    assert "no title step" not in first.stderr + again.stderr


def test_events_come_as_lines_of_json(folder: Path) -> None:
    done = chat(folder, "write a note\n", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    end = events.index({"event": "chat.complete", "reason": "completed"})
    assert events[0]["event"] == "chat.start"
    # The title comes after the turn; the script has none, so it is the first words.
    title = [one["block"] for one in events[end + 1 :]]
    assert [one["type"] for one in title] == ["react.model.call", "react.model.outcome", "conv.title"]
    assert title[-1]["text"] == "write a note"
    answer = "".join(one["text"] for one in events if one["event"] == "chat.delta" and one["channel"] == "answer")
    assert answer == "It is written."
    ids = [one["id"] for one in events if one["event"] == "chat.block"]
    assert ids == list(range(2, len(ids) + 2))


def test_a_turn_without_an_answer_says_why_and_fails(folder: Path) -> None:
    done = chat(folder, "one\ntwo\nthree\n")
    assert done.returncode == 1
    assert "protocol_failure" in done.stderr


def test_text_that_turned_out_not_to_be_the_answer_is_not_printed(folder: Path) -> None:
    half = '<channel:ReactDecisionOutV2>{"action": "complete", "final_answer": "half an ans'
    whole = (
        '<channel:ReactDecisionOutV2>{"action": "complete", "final_answer": "Got there."}</channel:ReactDecisionOutV2>'
    )
    (folder / "script.yaml").write_text(
        json.dumps([{"reply": half}, {"reply": half, "error": "cut"}, {"reply": whole}])
    )
    done = chat(folder, "go\n")
    assert (done.returncode, done.stdout) == (0, "Got there.\n")
    assert "… cut" in done.stderr


def test_an_exit_without_an_answer_says_why_and_fails(folder: Path) -> None:
    leave = '<channel:ReactDecisionOutV2>{"action": "exit", "notes": "I cannot do that."}</channel:ReactDecisionOutV2>'
    (folder / "script.yaml").write_text(json.dumps([{"reply": leave}]))
    done = chat(folder, "go\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert "I cannot do that." in done.stderr


def test_a_model_that_fails_says_what_is_wrong(folder: Path) -> None:
    (folder / "script.yaml").write_text("[]")
    done = chat(folder, "go\n")
    assert done.returncode == 1
    assert "provider_error" in done.stderr or "script" in done.stderr


def test_input_that_is_not_utf8_is_named_by_its_line(folder: Path) -> None:
    command = [sys.executable, "-m", "timeloom", "chat", "--data-dir", str(folder / "data")]
    model = ["--model", f"script:{folder / 'script.yaml'}"]
    done = subprocess.run([*command, *model], input=b"bad \xff\n", capture_output=True, check=False)
    assert done.returncode == 1
    assert b"line 1 of standard input is not UTF-8" in done.stderr


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--model", "nobody:x"], 1, "nobody"),
        (["--model", "script:missing.yaml"], 1, "missing.yaml"),
        (["--conversation", "conv_nope"], 1, "conv_nope"),
        (["--conversation", ""], 1, "no conversation"),
        (["--max-iterations", "0"], 2, "max-iterations"),
    ],
)
def test_what_cannot_be_done_is_said_without_a_traceback(
    folder: Path, options: list[str], code: int, words: str
) -> None:
    done = chat(folder, "hi\n", *options)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_where_no_model_is_named_the_local_one_answers_or_is_said_to_be_missing(folder: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "TIMELOOM_MODEL"}
    command = [sys.executable, "-m", "timeloom", "chat", "--data-dir", str(folder)]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False, env=environ)
    expected = (0, DEMO_NOTICE) if is_installed() else (2, "TIMELOOM_MODEL")
    assert (done.returncode, expected[1] in done.stderr) == (expected[0], True)
