"""`timeloom fork --at` and `timeloom replay --from` as their user meets them: real processes on one data folder."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers, calls

WRITE = calls("react.write", path="files/note.md", content="# Note on ferries")


@pytest.fixture
def stage(tmp_path: Path) -> ChatHarness:
    stage = ChatHarness(tmp_path)
    (tmp_path / "other.yaml").write_text(
        json.dumps([{"reply": one} for one in (WRITE, calls("react.rg", pattern="ferries"), answers("Other."))])
    )
    stage.script(WRITE, answers("The first answer."), answers("The second answer."))
    stage.run("chat", typed="one\n")
    return stage


def conversations(stage: ChatHarness) -> list[str]:
    lines = stage.run("export", "--json").stdout.splitlines()
    return [json.loads(line)["conversation_id"] for line in lines]


def test_a_fork_in_the_middle_of_a_call_has_ended_there_and_goes_on_when_somebody_speaks(stage: ChatHarness) -> None:
    (source,) = conversations(stage)
    done = stage.run("fork", source, "--at", "7", "--json")
    copy = json.loads(done.stdout)
    assert (copy["cut"], copy["forked_from"]["seq"]) == (True, 7)
    assert stage.run("worker").stdout == "no turn is open\n"
    talk = stage.run("chat", "--conversation", copy["conversation"], typed="again\n")
    assert talk.stdout == "The first answer.\n"
    assert stage.run("verify").returncode == 0
    assert stage.run("replay", "--verify").returncode == 0
    assert stage.run("verify", "--recovery").returncode == 0


def test_where_to_fork_is_said_once_and_must_be_there(stage: ChatHarness) -> None:
    (source,) = conversations(stage)
    assert stage.run("fork", source, "--at", "3", "--turn", "1").returncode == 2
    refused = stage.run("fork", source, "--at", "999")
    assert (refused.returncode, "from 1 to" in refused.stderr) == (1, True)


def test_a_rerun_shows_the_difference_and_leaves_nothing_behind(stage: ChatHarness, tmp_path: Path) -> None:
    (source,) = conversations(stage)
    before = sorted(path.relative_to(tmp_path) for path in (tmp_path / "data" / "workspaces").rglob("*"))
    done = stage.run("replay", source, "--from", "8", "--model", f"script:{tmp_path / 'other.yaml'}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "the last entry up to 8 where the model can be called" in done.stdout
    assert "The first difference is in round 2" in done.stdout
    rows = [line.split()[:3] for line in done.stdout.splitlines() if "re-run  " in line]
    assert rows[:3] == [
        ["re-run", "the", "same"],
        ["re-run", "react.rg", '{"pattern":"ferries"}'],
        ["3", "re-run", "answer:"],
    ]
    assert conversations(stage) == [source]
    assert sorted(path.relative_to(tmp_path) for path in (tmp_path / "data" / "workspaces").rglob("*")) == before


def test_a_rerun_of_the_newest_conversation_is_kept_on_demand(stage: ChatHarness, tmp_path: Path) -> None:
    (source,) = conversations(stage)
    done = stage.run("replay", "--from", "1", "--model", f"script:{tmp_path / 'other.yaml'}", "--keep", "--json")
    found = json.loads(done.stdout)
    assert (found["kind"], found["is_same"], found["forked_from"]["conversation_id"]) == ("rerun", False, source)
    assert conversations(stage) == [source, found["kept"]]
    assert [pair["verdict"] for pair in found["turns"][0]["rounds"]] == ["same", "differs", "only_rerun"]
    assert stage.run("verify").returncode == 0
    assert stage.run("replay", "--verify").returncode == 0


@pytest.mark.parametrize(
    "options",
    [("--keep",), ("--turns", "1"), ("--from", "1", "--verify"), ("--from", "1", "--cache"), ("--from", "0")],
)
def test_options_that_do_not_go_together_are_refused(stage: ChatHarness, options: tuple[str, ...]) -> None:
    assert stage.run("replay", *options).returncode == 2


def test_a_model_that_has_no_answer_ends_the_rerun_with_a_failure(stage: ChatHarness, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text(json.dumps([{"reply": WRITE}]))
    done = stage.run("replay", "--from", "1", "--model", f"script:{tmp_path / 'empty.yaml'}")
    assert (done.returncode, "completed / provider_error" in done.stdout) == (1, True)


def model_calls(stage: ChatHarness, conversation: str) -> int:
    return stage.run("inspect", conversation, "--type", "react.model.call", "--json").stdout.count("\n")


def broken_off_by(number: signal.Signals, stage: ChatHarness, tmp_path: Path) -> str:
    """The fork of a re-run that got this signal while its model was asked."""
    slow = [{"reply": WRITE}, {"reply": answers("Never."), "delay_ms": 3_600_000}]
    (tmp_path / "slow.yaml").write_text(json.dumps(slow))
    options = ["--data-dir", str(stage.data), "--model", f"script:{tmp_path / 'slow.yaml'}"]
    command = [sys.executable, "-m", "timeloom", "replay", "--from", "1", "--keep", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        fork = process.stderr.readline().split()[-1]
        while model_calls(stage, fork) < 2:
            assert process.poll() is None
        process.send_signal(number)
    return fork


def test_a_rerun_that_is_broken_off_leaves_a_fork_that_has_ended(stage: ChatHarness, tmp_path: Path) -> None:
    fork = broken_off_by(signal.SIGINT, stage, tmp_path)
    assert fork in conversations(stage)
    assert stage.run("worker").stdout == "no turn is open\n"
    assert "broken off" in stage.run("inspect", fork).stdout
    assert stage.run("verify").returncode == 0


def test_a_rerun_that_is_killed_is_ended_by_whoever_opens_it_and_not_gone_on_with(
    stage: ChatHarness, tmp_path: Path
) -> None:
    fork = broken_off_by(signal.SIGKILL, stage, tmp_path)
    model = ("--model", f"script:{tmp_path / 'script.yaml'}")
    assert stage.run("worker", *model).stdout == f"{fork}: ended, cancelled\n"
    assert model_calls(stage, fork) == 2
    assert "stopped in the middle" in stage.run("inspect", fork, "--type", "react.turn.end").stdout
    assert stage.run("worker", *model).stdout == "no turn is open\n"
    assert stage.run("verify").returncode == 0
    assert stage.run("replay", "--verify").returncode == 0
    assert stage.run("chat", "--conversation", fork, typed="and now?\n").stdout == "The first answer.\n"


def test_a_chat_on_a_killed_rerun_begins_a_turn_of_its_own(stage: ChatHarness, tmp_path: Path) -> None:
    fork = broken_off_by(signal.SIGKILL, stage, tmp_path)
    assert stage.run("chat", "--conversation", fork, typed="and now?\n").stdout == "The first answer.\n"
    assert stage.run("inspect", fork, "--type", "turn.header", "--json").stdout.count("\n") == 2
