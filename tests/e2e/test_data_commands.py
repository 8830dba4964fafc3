"""`timeloom list` and `delete` from outside."""

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
