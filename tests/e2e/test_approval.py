"""Calls that wait for a person: asked on a terminal, decided by a command, on the same day or another."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers, calls

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e"
ASK = ("--ask-before", "react.write")


@pytest.fixture
def stage(tmp_path: Path) -> ChatHarness:
    stage = ChatHarness(tmp_path)
    stage.script(
        calls("react.write", "I write.", path="files/note.md", content=f"# Note {HOSTILE}"),
        answers("That is that."),
    )
    return stage


def waiting(stage: ChatHarness, *options: str) -> tuple[str, str]:
    """A conversation that waits, and the call that it waits for."""
    events = [
        json.loads(line) for line in stage.run("chat", *ASK, "--json", *options, typed="go\n").stdout.splitlines()
    ]
    asked = next(one for one in events if one["event"] == "chat.approval")
    return events[0]["conversation_id"], asked["call_id"]


def test_without_a_terminal_the_turn_waits_and_the_command_that_decides_is_printed(stage: ChatHarness) -> None:
    done = stage.run("chat", *ASK, typed="go\nnever said\n")
    assert (done.returncode, done.stdout) == (1, "")
    for words in ("May it call react.write?", "needs a person's approval here", '"path": "files/note.md"'):
        assert words in done.stderr
    assert "\x1b" not in done.stderr
    assert done.stderr.count("→ react.write") == 1
    line = next(line for line in done.stderr.splitlines() if "to allow it:" in line)
    command = shlex.split(line.partition(":")[2])
    assert command[1] == "approve"
    decided = subprocess.run(
        [sys.executable, "-m", "timeloom", *command[1:]], capture_output=True, text=True, check=False
    )
    assert (decided.returncode, decided.stdout) == (0, "That is that.\n")


def test_as_json_the_question_is_an_event(stage: ChatHarness) -> None:
    done = stage.run("chat", *ASK, "--json", typed="go\n")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    asked = next(one for one in events if one["event"] == "chat.approval")
    assert (asked["tool_id"], json.loads(asked["params"])["path"]) == ("react.write", "files/note.md")
    assert events[-1] == {"event": "chat.complete", "reason": "waiting"}
    assert f"approve {events[0]['conversation_id']} {asked['call_id']}" in done.stderr


def test_a_refusal_with_its_reason_is_told_to_the_model(stage: ChatHarness) -> None:
    conversation, waits = waiting(stage)
    done = stage.run("approve", conversation, waits, "--refuse", "--reason", "not today")
    assert (done.returncode, done.stdout) == (0, "That is that.\n")
    assert "not today" in stage.run("export", "--json").stdout
    assert not list(stage.data.glob("workspaces/*/*/files/note.md"))


def test_without_a_call_what_waits_is_shown_and_nothing_decided(stage: ChatHarness) -> None:
    conversation, waits = waiting(stage)
    for _ in range(2):
        done = stage.run("approve", conversation)
        assert (done.returncode, done.stdout) == (0, "")
        assert f"approve {conversation} {waits}" in done.stderr


def test_the_command_that_decides_names_what_the_turn_was_held_with(stage: ChatHarness, tmp_path: Path) -> None:
    conversation, waits = waiting(stage)
    command = [sys.executable, "-m", "timeloom", "approve", conversation, "--data-dir", str(stage.data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    line = next(line for line in done.stderr.splitlines() if "to allow it:" in line)
    words = shlex.split(line.partition(":")[2])
    assert words[1:] == ["approve", conversation, waits, *command[-2:], "--model", "script:script.yaml", *ASK]
    work = [sys.executable, "-m", "timeloom", "worker", "--data-dir", str(stage.data), "--model", "script:script.yaml"]
    said = subprocess.run(work, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert f"`timeloom approve {conversation} {shlex.join(work[4:])}`" in said


def test_names_that_no_tool_has_are_warned_of(stage: ChatHarness) -> None:
    done = stage.run("chat", "--ask-before", "react.writ,react.*")
    assert "policy.ask_before names 'react.writ', which is not a tool; did you mean react.write?" in done.stderr
    assert done.stderr.count("warning") == 1


@pytest.mark.parametrize(("call_id", "words"), [("0123456789ab", "the waiting call is"), ("", "does not wait")])
def test_only_the_call_that_waits_is_decided(stage: ChatHarness, call_id: str, words: str) -> None:
    conversation, _ = waiting(stage)
    done = stage.run("approve", conversation, call_id)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert "approval_unknown" in done.stderr


def test_a_conversation_in_which_nothing_waits_says_so(stage: ChatHarness) -> None:
    conversation, waits = waiting(stage)
    stage.run("approve", conversation, waits)
    done = stage.run("approve", conversation, waits)
    assert done.returncode == 1
    assert "waits for approval [approval_unknown]" in done.stderr


def test_a_message_to_a_turn_that_waits_is_not_read_without_a_terminal(stage: ChatHarness) -> None:
    conversation, waits = waiting(stage)
    done = stage.run("chat", *ASK, "--conversation", conversation, typed="xyzzy\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"approve {conversation} {waits}" in done.stderr
    assert "xyzzy" not in stage.run("export", "--json").stdout


@pytest.mark.parametrize("columns", [40, 80])
def test_on_a_terminal_the_question_is_asked_again_another_day(stage: ChatHarness, columns: int) -> None:
    with stage.chat(*ASK, columns=columns) as terminal:
        terminal.wait("/help")
        terminal.enter("go")
        shown = terminal.wait("May it call react.write?", "allow? y/n>")
        assert '"files/note.md"' in shown
        assert b"\x1b[2J" not in terminal.raw
        terminal.type("\x04")
        assert terminal.wait_exit() == 0
    with stage.chat(*ASK, "--resume", columns=columns) as terminal:
        shown = terminal.wait("> go", "May it call react.write?", "allow? y/n>")
        assert "interrupted" not in shown
        assert max(map(len, shown.splitlines())) <= columns
        terminal.enter("y go ahead")
        shown = terminal.wait("That is that.", "tokens in")
        assert "✓ react.write" in shown
        assert ": go ahead" in shown
    assert b"\x1b]0;owned" not in terminal.raw


def test_a_question_that_was_put_off_is_asked_again_and_a_message_changes_the_course(stage: ChatHarness) -> None:
    with stage.chat(*ASK) as terminal:
        terminal.wait("/help")
        terminal.enter("go")
        terminal.wait("allow? y/n>")
        terminal.type("\x03")
        terminal.wait("not decided")
        terminal.enter("/approve")
        terminal.wait("> /approve\n\nMay it call")
        terminal.type("\x03")
        terminal.wait_gone("allow? y/n>")
        terminal.enter("rather not")
        shown = terminal.wait("That is that.", "tokens in")
        assert "> rather not" in shown
        assert "✗ react.write" in shown
        assert not list(stage.data.glob("workspaces/*/*/files/note.md"))


def test_a_turn_that_waits_can_be_stopped(stage: ChatHarness) -> None:
    with stage.chat(*ASK) as terminal:
        terminal.wait("/help")
        terminal.enter("/stop")
        terminal.wait("no turn is running")
        terminal.enter("go")
        terminal.wait("allow? y/n>")
        terminal.type("\x03")
        terminal.wait("not decided")
        terminal.enter("/stop")
        terminal.wait("stopped: the user stopped the turn")
        terminal.enter("/approve")
        terminal.wait("no call waits for a decision")


def test_a_dumb_terminal_asks_in_plain_lines(stage: ChatHarness) -> None:
    with stage.chat(*ASK, TERM="dumb") as terminal:
        terminal.wait("\n>")
        terminal.type("go\n")
        terminal.wait("May it call react.write?", "allow? y/n>")
        terminal.type("maybe\n")
        terminal.type("y\n")
        terminal.wait("That is that.")
        terminal.type("\x04")
        assert terminal.wait_exit() == 0
        assert b"\x1b" not in terminal.raw
