"""`timeloom erase` and `timeloom verify --recovery` from outside."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.e2e.chat_harness import ChatHarness
from tests.harness.replies import answers, calls
from timeloom.core.ids import ConversationId
from timeloom.stores.sqlite import SqliteStore

SECRET = "xq7zkw9v"


@pytest.fixture
def stage(tmp_path: Path) -> ChatHarness:
    stage = ChatHarness(tmp_path)
    stage.script(calls("react.write", path="files/a.md", content="# A note"), answers("Noted."), answers("So it is."))
    return stage


def talked(stage: ChatHarness) -> tuple[str, str]:
    """The conversation, and the path of its first message."""
    conversation = re.findall(r"conv_\w+", stage.run("chat", typed=f"My number is {SECRET}\nAnd now?\n").stderr)[0]
    exported = json.loads(stage.run("export", "--json").stdout)
    return conversation, next(block["path"] for block in exported["blocks"] if block["type"] == "user.prompt")


def found_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_a_message_is_erased_at_a_word_and_only_then(stage: ChatHarness) -> None:
    conversation, path = talked(stage)
    asked = stage.run("erase", conversation, path)
    assert (asked.returncode, "pass --yes" in asked.stderr, path in asked.stdout) == (1, True, True)
    assert found_in(stage.data)
    done = stage.run("erase", conversation, path, "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Erased.")
    assert found_in(stage.data) == []
    assert stage.run("verify").returncode == 0
    replayed = stage.run("replay", "--verify")
    assert (replayed.returncode, "unchecked because their content was erased: " in replayed.stdout) == (0, True)
    assert stage.run("replay", "--cache").returncode == 0
    listed = stage.run("replay").stdout
    assert " erased " in listed
    turn = path.removeprefix("ar:").removesuffix(".user.prompt")
    prompt = stage.run("replay", "--prompt", f"ar:{turn}.react.model.1")
    assert (prompt.returncode, "was erased" in prompt.stderr, "[ERASED]" in prompt.stdout) == (0, True, True)
    again = stage.run("erase", conversation, path, "--yes")
    assert (again.returncode, "already erased: 1" in again.stdout) == (0, True)
    assert stage.run("chat", "--conversation", conversation, typed="More?\n").returncode == 1


def test_all_of_a_conversation_is_erased_and_reported_as_json(stage: ChatHarness) -> None:
    conversation, _ = talked(stage)
    report = json.loads(stage.run("erase", conversation, "--all", "--yes", "--json").stdout)
    assert report["conversation"] == conversation
    assert {entry["why"] for entry in report["entries"]} == {"named"}
    assert SECRET not in json.dumps(report)
    assert found_in(stage.data) == []
    assert stage.run("verify", "--recovery").returncode == 0


def test_what_was_typed_on_a_terminal_is_forgotten_too(stage: ChatHarness) -> None:
    conversation, path = talked(stage)
    history = stage.data / "chat_history"
    history.write_text(f"\n# 2026-02-09 02:14:32\n+My number\n+is {SECRET}\n\n# 2026-02-09 02:14:33\n+And now?\n")
    assert stage.run("erase", conversation, path, "--yes").returncode == 0
    assert history.read_text() == "\n# 2026-02-09 02:14:33\n+And now?\n"


def test_an_erase_that_is_refused_leaves_what_was_typed(stage: ChatHarness) -> None:
    conversation, path = talked(stage)
    history = stage.data / "chat_history"
    history.write_text(f"\n# 2026-02-09 02:14:32\n+My number is {SECRET}\n")

    async def refused() -> None:
        async with await SqliteStore.open(stage.data) as store:
            await store.acquire(ConversationId(conversation), "somebody")
            done = await asyncio.to_thread(stage.run, "erase", conversation, path, "--yes")
            assert (done.returncode, "[conversation_held]" in done.stderr) == (1, True)

    asyncio.run(refused())
    assert SECRET in history.read_text()


@pytest.mark.parametrize("words", [(), ("--all", "ar:turn_1.user.prompt")])
def test_paths_or_all_must_be_said_and_not_both(stage: ChatHarness, words: tuple[str, ...]) -> None:
    assert stage.run("erase", "conv_x", *words).returncode == 2


def test_recovery_is_proved_for_all_or_for_one(stage: ChatHarness) -> None:
    conversation, _ = talked(stage)
    proved = stage.run("verify", "--recovery")
    assert (proved.returncode, proved.stdout.splitlines()[-1].endswith("nothing is lost.")) == (0, True)
    found = json.loads(stage.run("verify", "--recovery", "--json", "--conversation", conversation).stdout)
    assert (found["conversation"], found["lost"]) == (conversation, [])
    assert stage.run("verify", "--recovery", "--conversation", "conv_nope").returncode == 1
    assert stage.run("verify", "--conversation", conversation).returncode == 2
