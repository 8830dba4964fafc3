"""`timeloom fork`, `/fork` and `--resume` copy, find and resume conversations."""

import json
import re
from pathlib import Path

import pytest

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers, calls


@pytest.fixture
def stage(tmp_path: Path) -> ChatHarness:
    stage = ChatHarness(tmp_path)
    stage.script(
        calls("react.write", path="files/note.md", content="# Note on ferries"),
        answers("The first answer."),
        answers("The second answer."),
        calls("react.rg", pattern="ferries"),
        answers("The third answer."),
    )
    return stage


def conversation_of(stderr: str) -> str:
    return re.findall(r"conv_\w+", stderr)[0]


def test_a_fork_goes_on_by_itself_with_its_files(stage: ChatHarness) -> None:
    first = conversation_of(stage.run("chat", typed="one\ntwo\n").stderr)
    done = stage.run("fork", first, "--turn", "t1")
    copy = done.stdout.strip()
    assert (done.returncode, copy != first) == (0, True)
    assert stage.run("chat", "--conversation", copy, typed="again\n").stdout == "The second answer.\n"
    third = stage.run("chat", "--conversation", copy, "--json", typed="find it\n").stdout
    assert "note.md" in next(line for line in third.splitlines() if "searched_files" in line)
    assert stage.run("replay", "--verify").returncode == 0
    assert stage.run("verify").returncode == 0
    exported = [json.loads(line) for line in stage.run("export", "--json").stdout.splitlines()]
    assert [sum(block["type"] == "user.prompt" for block in one["blocks"]) for one in exported] == [2, 3]


def test_a_fork_says_where_it_began_and_refuses_what_is_not_there(stage: ChatHarness) -> None:
    first = conversation_of(stage.run("chat", typed="one\n").stderr)
    copy = json.loads(stage.run("fork", first, "--json").stdout)
    assert copy["forked_from"]["conversation_id"] == first
    assert copy["turns"] == 1
    done = stage.run("fork", first, "--turn", "7")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no turn '7'" in done.stderr
    assert stage.run("fork", first, "--turn", "1").returncode == 0
    assert stage.run("fork", "conv_nope").returncode == 1


def test_on_a_terminal_a_fork_is_gone_on_with_at_once(stage: ChatHarness) -> None:
    with stage.chat() as terminal:
        first = conversation_of(terminal.wait("conversation conv_", "/help"))
        terminal.enter("/fork")
        terminal.wait("there is no turn yet")
        terminal.enter("one")
        terminal.wait("The first answer.", "tokens in")
        terminal.enter("/fork 9")
        terminal.wait("there is no turn '9'")
        terminal.enter("/fork 1")
        shown = terminal.wait("the original stays")
        assert len(set(re.findall(r"conv_\w+", shown))) == 2
        terminal.enter("two")
        terminal.wait("The second answer.")
    assert stage.run("chat", "--conversation", first, typed="two again\n").stdout == "The second answer.\n"


def test_the_newest_conversation_is_resumed_or_the_newest_with_words(stage: ChatHarness) -> None:
    stage.run("chat", typed="about ferries\n")
    stage.run("chat", typed="about trains\n")
    stage.run("chat", typed="")
    trains = stage.run("chat", "--resume", typed="more\n")
    ferries = stage.run("chat", "--resume", "ferr", typed="more\n")
    assert trains.stdout == ferries.stdout == "The second answer.\n"
    assert conversation_of(trains.stderr) != conversation_of(ferries.stderr)
    nothing = stage.run("chat", "--resume", "dragons", typed="more\n")
    assert (nothing.returncode, "that contains 'dragons'" in nothing.stderr) == (1, True)
    assert stage.run("chat", "--resume", "x", "--conversation", "y").returncode == 2


def test_a_conversation_that_is_open_on_a_terminal_is_refused_with_who_holds_it(stage: ChatHarness) -> None:
    with stage.chat() as terminal:
        first = conversation_of(terminal.wait("conversation conv_", "/help"))
        refused = stage.run("chat", "--conversation", first, typed="hi\n")
        assert refused.returncode == 1
        assert "is held by timeloom chat" in refused.stderr
        assert "conversation_held" in refused.stderr
        with stage.chat() as other:
            other.wait("/help")
            terminal.enter("one")
            terminal.wait("tokens in")
            other.enter("/resume")
            other.wait("  1. ")
            other.enter("1")
            other.wait("is held by timeloom chat")
