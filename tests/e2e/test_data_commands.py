"""`timeloom list`, `delete`, `backup` and `restore` from outside."""

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


def start_conversation(stage: ChatHarness) -> str:
    return re.findall(r"conv_\w+", stage.run("chat", typed=f"My number is {SECRET}\nAnd now?\n").stderr)[0]


def test_conversations_are_listed_in_pages_newest_first(stage: ChatHarness) -> None:
    older, newer = start_conversation(stage), start_conversation(stage)
    (first,) = map(json.loads, stage.run("list", "--json", "--limit", "1").stdout.splitlines())
    assert (first["id"], first["turns"], first["status"]) == (newer, 2, "idle")
    second = stage.run("list", "--limit", "1", "--page", "2")
    assert (second.returncode, second.stdout.split()[0], second.stderr) == (0, older, "")


def test_a_conversation_is_deleted_only_after_a_yes(stage: ChatHarness) -> None:
    conversation = start_conversation(stage)
    asked = stage.run("delete", conversation)
    assert (asked.returncode, "pass --yes" in asked.stderr) == (1, True)
    deleted = stage.run("delete", conversation, "--yes", "--json")
    assert (deleted.returncode, json.loads(deleted.stdout)) == (0, {"deleted": conversation})
    assert [path for path in stage.data.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []
    assert stage.run("list").stdout == ""
    assert stage.run("verify").returncode == 0
    assert stage.run("delete", conversation, "--yes").returncode == 1


def test_a_held_conversation_is_not_deleted(stage: ChatHarness) -> None:
    conversation = start_conversation(stage)

    async def delete_while_held() -> str:
        async with await SqliteStore.open(stage.data) as store:
            await store.acquire(ConversationId(conversation), "a test")
            refused = await asyncio.to_thread(stage.run, "delete", conversation, "--yes")
            assert refused.returncode == 1
            return refused.stderr

    assert "[conversation_held]" in asyncio.run(delete_while_held())
    assert conversation in stage.run("list").stdout


def test_a_backup_of_a_folder_in_use_verifies_and_restores(stage: ChatHarness, tmp_path: Path) -> None:
    conversation = start_conversation(stage)
    assert stage.run("retention", "--keep", conversation).returncode == 0

    async def back_up_while_held() -> int:
        async with await SqliteStore.open(stage.data) as store:
            await store.acquire(ConversationId(conversation), "a test")
            return (await asyncio.to_thread(stage.run, "backup", str(tmp_path / "copy"))).returncode

    assert asyncio.run(back_up_while_held()) == 0
    before = stage.run("export", "--json").stdout
    heads = stage.data.rename(tmp_path / "original") / "heads"
    restored = stage.run("restore", str(tmp_path / "copy"))
    assert (restored.returncode, "all whole" in restored.stdout) == (0, True)
    assert stage.run("export", "--json").stdout == before
    assert json.loads(stage.run("verify", "--json").stdout)["records"] == 1
    assert stage.run("verify", "--against", str(heads)).returncode == 0
    assert stage.run("replay", "--verify").returncode == 0
    notes = [path.read_text() for path in (stage.data / "workspaces").rglob("a.md")]
    assert notes and set(notes) == {"# A note"}


def test_backup_and_restore_refuse_a_folder_with_content(stage: ChatHarness) -> None:
    start_conversation(stage)
    refused = stage.run("backup", str(stage.data))
    assert (refused.returncode, "is not an empty folder" in refused.stderr) == (1, True)
    assert "[folder_not_empty]" in refused.stderr
    assert stage.run("restore", str(stage.data)).returncode == 1
    assert stage.run("restore", str(stage.data / "blobs")).returncode == 2


def test_a_backup_with_a_lost_payload_names_the_check(stage: ChatHarness, tmp_path: Path) -> None:
    start_conversation(stage)
    for path in (stage.data / "blobs").glob("t_*/*/*"):
        path.unlink()
    refused = stage.run("backup", str(tmp_path / "copy"))
    assert (refused.returncode, "timeloom verify" in refused.stderr) == (1, True)
