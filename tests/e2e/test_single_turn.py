"""`timeloom chat -p`: one message, standard input as context, an exit code by outcome."""

import json
from pathlib import Path

import pytest

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers, calls


@pytest.fixture
def stage(tmp_path: Path) -> ChatHarness:
    stage = ChatHarness(tmp_path)
    stage.script(answers("Looks good."), {"reply": "Review", "when": "title"})
    return stage


def test_the_answer_alone_is_on_standard_output(stage: ChatHarness) -> None:
    done = stage.run("chat", "-p", "hello")
    assert (done.returncode, done.stdout) == (0, "Looks good.\n")
    assert "conversation conv_" in done.stderr


def test_standard_input_is_attached_to_the_message(stage: ChatHarness) -> None:
    done = stage.run("chat", "-p", "review", typed="+ a changed line\n/compact\n")
    assert (done.returncode, done.stdout) == (0, "Looks good.\n")
    exported = stage.run("inspect").stdout
    assert "stdin.txt" in exported


def test_json_is_one_object(stage: ChatHarness) -> None:
    done = stage.run("chat", "-p", "hello", "--json")
    result = json.loads(done.stdout)
    assert (result["reason"], result["text"], result["usage"]["model_calls"]) == ("completed", "Looks good.", 1)
    assert result["conversation"].startswith("conv_")
    assert set(result) == {"conversation", "turn", "reason", "text", "sources", "usage", "cost"}


def test_a_waiting_call_exits_with_1_and_names_the_command(stage: ChatHarness) -> None:
    stage.script(calls("react.write", "I write.", path="files/note.md", content="# Note"), answers("Done."))
    done = stage.run("chat", "-p", "go", "--json", "--ask-before", "react.write")
    result = json.loads(done.stdout)
    assert (done.returncode, result["reason"], result["text"]) == (1, "waiting", None)
    assert f"approve {result['conversation']}" in done.stderr
    again = stage.run("chat", "-p", "more", "--conversation", result["conversation"], "--ask-before", "react.write")
    assert (again.returncode, again.stdout) == (1, "")
    assert "to allow it:" in again.stderr


@pytest.mark.parametrize("message", ["", "/compact"])
def test_a_command_or_an_empty_message_is_a_usage_error(stage: ChatHarness, message: str) -> None:
    done = stage.run("chat", "-p", message)
    assert (done.returncode, done.stdout) == (2, "")
    assert not stage.data.exists()


def test_a_failed_turn_exits_with_1(stage: ChatHarness) -> None:
    stage.script()
    done = stage.run("chat", "-p", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the turn ended" in done.stderr


def test_too_much_or_binary_input_is_refused(stage: ChatHarness) -> None:
    done = stage.run("chat", "-p", "review", typed="x" * 10_000_001)
    assert (done.returncode, "more than 10" in done.stderr) == (1, True)
    done = stage.run("chat", "-p", "review", typed="a\0b")
    assert (done.returncode, "binary" in done.stderr) == (1, True)
