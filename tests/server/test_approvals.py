"""Waiting calls: who sees them, what they say, and what the lists say about their conversations."""

from pathlib import Path
from typing import Any, cast

import pytest

from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, Json, RunningServer, ServerHarness, calls, repeated_reply, run
from timeloom.core.blocks import ConversationStarted, Thinking, TurnStarted, UserPrompt
from timeloom.core.blocks.extract_payloads import INLINE_BYTES
from timeloom.core.ids import ConversationId, TurnId
from timeloom.core.timeline import NO_TURN, Draft
from timeloom.runtime.read.open_turn import PAGE
from timeloom.server.auth.access_policy import AccessPolicy
from timeloom.stores.sqlite import SqliteStore

APPROVALS = "/approvals/home/demo"
TS = "2026-02-09T02:14:32.676425Z"
Listed = list[dict[str, Any]]


def a_stage(folder: Path, approvals: str = "owner") -> ServerHarness:
    stage = ServerHarness(folder, repeated_reply(calls("t.send")))
    stage.rules = AccessPolicy(approvals="approver" if approvals == "approver" else "owner")
    return stage


async def ask(served: RunningServer, token: str = "ann", project: str = "demo") -> str:
    """Start a conversation of that user, which then waits, and return its id."""
    client = served.client(token)
    said = (await client.post(f"/chat/home/{project}", {"message": "send it"})).json()
    url = f"/conversations/home/{project}/{said['conversation_id']}/status"
    while (await client.get(url)).json()["state"] != "waiting":
        pass
    return said["conversation_id"]


async def waiting(served: RunningServer, token: str, **query: str | int) -> Listed:
    return (await served.client(token).get(APPROVALS, **query)).json()["approvals"]


@pytest.mark.parametrize(
    ("approvals", "seen"),
    [
        ("owner", {"ann": {"ann"}, "bob": {"bob"}, "approver": {"ann", "bob"}, "admin": {"ann", "bob"}}),
        ("approver", {"ann": set[str](), "approver": {"ann", "bob"}, "admin": {"ann", "bob"}}),
    ],
)
def test_the_list_shows_what_the_caller_may_decide(tmp_path: Path, approvals: str, seen: dict[str, set[str]]) -> None:
    async def check() -> None:
        async with a_stage(tmp_path, approvals).serve() as served:
            for token in ("ann", "bob"):
                await ask(served, token)
            await ask(served, "admin", "other")
            for token, owners in seen.items():
                assert {one["user"] for one in await waiting(served, token)} == owners

    run(check)


def test_an_item_says_enough_to_decide(tmp_path: Path) -> None:
    async def check() -> None:
        stage = a_stage(tmp_path)
        async with stage.serve() as served:
            conversation = await ask(served)
            await served.ann.post(f"{LIST}/{conversation}/title", {"title": "A letter"})
            (item,) = await waiting(served, "approver")
            status: Json = (await served.ann.get(f"{LIST}/{conversation}/status")).json()
            (asked,) = cast(Listed, status["approvals"])
            assert asked == {name: item[name] for name in ("tool_call_id", "tool_id", "text")}
            assert (item["tool_id"], item["title"], item["user"]) == ("t.send", "A letter", "ann")
            assert item["text"] and item["policy"]
            assert (item["conversation_id"], item["turn_id"]) == (conversation, status["turn_id"])
            block = (await served.ann.blocks(conversation))[cast(int, item["seq"]) - 1]
            assert (block["type"], block["ts"], block["text"]) == ("react.approval.request", item["ts"], item["text"])
            url = f"{LIST}/{conversation}/approvals/{item['tool_call_id']}"
            assert (await served.client("approver").post(url, {"approved": False})).status_code == 202
            while item in (now := await waiting(served, "approver")):
                pass
            assert all(one["seq"] > item["seq"] for one in now)

    run(check)


def test_the_list_comes_in_pages(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_stage(tmp_path).serve() as served:
            expected = sorted([await ask(served) for _ in range(3)])
            cursor, found = "", list[str]()
            while len(found) < 10:
                page = (await served.ann.get(APPROVALS, limit=1, cursor=cursor)).json()
                found += [one["conversation_id"] for one in page["approvals"]]
                cursor = page["cursor"]
                if not cursor:
                    break
            assert found == expected
            assert (await served.ann.get(APPROVALS, limit=0)).status_code == 400

    run(check)


def test_a_look_at_calls_of_others_is_audited(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_stage(tmp_path).serve() as served:
            await waiting(served, "approver")
            await ask(served)
            await waiting(served, "ann")
            await waiting(served, "approver")
            await ask(served, "bob")
            await waiting(served, "approver")
            entries: Listed = (await served.client("admin").get("/audit/home/demo")).json()["entries"]
            looked = [(one["user"], one["owner"]) for one in entries if one["operation"] == "list_approvals"]
            assert looked == [("eve", "ann")] * 2 + [("eve", "*")] * 2

    run(check)


def test_waiting_calls_are_found_after_a_restart_and_while_another_program_holds_them(tmp_path: Path) -> None:
    async def check() -> None:
        async with await SqliteStore.open(tmp_path / "data") as store:
            stage = ServerHarness(tmp_path, repeated_reply(calls("t.send")), store=store)
            async with stage.serve() as served:
                conversation = ConversationId(await ask(served))
                before = await waiting(served, "ann")
            async with stage.serve() as served:
                assert await waiting(served, "ann") == before
                (listed,) = (await served.ann.get(LIST)).json()["conversations"]
                assert listed["state"] == "waiting"
                lease = await store.acquire(conversation, "another program")
                assert await waiting(served, "ann") == before
                await store.release(lease)

    run(check)


def test_lists_say_what_conversations_do(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("Done."), calls("t.wait"), calls("t.send"))
        left = ConversationId("conv_left")
        header = ConversationStarted(tenant="home", project="demo", user="ann")
        blocks = [TurnStarted(n=1), UserPrompt(text="go"), *[Thinking(round=1, text="hm")] * (2 * PAGE)]
        drafts = [Draft(NO_TURN, TS, header), *(Draft(TurnId("turn_1"), TS, block) for block in blocks)]
        await stage.store.append(left, 0, drafts)
        async with stage.serve() as served:

            async def states() -> dict[str, str]:
                listed: Listed = (await served.ann.get(LIST)).json()["conversations"]
                return {one["id"]: one["state"] for one in listed}

            # Each conversation plays the script from its beginning.
            idle, running, waits = [str((await served.ann.send_message("go"))["conversation_id"]) for _ in range(3)]
            for name in (idle, running, waits):
                await served.ann.wait_for_state(name, "idle")
            for name in (running, waits):
                stage.waiting.clear()
                await served.ann.send_message("and on", name)
                await stage.waiting.wait()
            await served.ann.send(waits, "steer", "send it")
            await served.ann.wait_for_state(waits, "waiting")
            expected = {idle: "idle", running: "running", waits: "waiting", left: "interrupted"}
            assert await states() == expected
            for name, state in expected.items():
                assert (await served.ann.get(f"{LIST}/{name}")).json()["state"] == state
                assert (await served.ann.get(f"{LIST}/{name}/status")).json()["state"] == state
            lease = await stage.store.acquire(left, "another program")
            assert (await states())[left] == "running"
            await stage.store.release(lease)

    run(check)


def test_a_turn_that_failed_is_interrupted_in_the_list(tmp_path: Path) -> None:
    async def check() -> None:
        # The script has no further reply, which is an error of the model's program.
        async with ServerHarness(tmp_path, calls("t.look")).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            while (state := (await served.ann.get(f"{LIST}/{conversation}/status")).json()["state"]) == "running":
                pass
            assert (await served.ann.get(f"{LIST}/{conversation}")).json()["state"] == state

    run(check)


def test_the_response_says_who_may_write(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_stage(tmp_path).serve() as served:
            conversation = await ask(served)
            for token, may_write in (("ann", True), ("admin", True), ("approver", False)):
                client = served.client(token)
                assert (await client.get(f"{LIST}/{conversation}")).json()["may_write"] is may_write
                for part in ("timeline", "status", "sources", "files"):
                    assert (await client.get(f"{LIST}/{conversation}/{part}")).status_code == 200
            async with served.client("approver").stream_conversation(conversation) as events:
                assert (await anext(events)).event == "conv.status"
            body = {"message": "x", "conversation_id": conversation}
            assert (await served.client("approver").post(CHAT, body)).status_code == 403

    run(check)


@pytest.mark.parametrize(
    ("approvals", "deciders"), [("owner", {"ann", "admin", "approver"}), ("approver", {"admin", "approver"})]
)
def test_the_response_says_who_may_decide(tmp_path: Path, approvals: str, deciders: set[str]) -> None:
    async def check() -> None:
        async with a_stage(tmp_path, approvals).serve() as served:
            conversation = await ask(served)
            for token in ("ann", "admin", "approver"):
                shown = (await served.client(token).get(f"{LIST}/{conversation}")).json()
                assert shown["may_decide"] is (token in deciders)

    run(check)


def test_a_conversation_in_its_first_turn_is_listed_by_its_first_words(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_stage(tmp_path).serve() as served:
            conversation = await ask(served)
            (listed,) = (await served.ann.get(LIST)).json()["conversations"]
            shown = (await served.ann.get(f"{LIST}/{conversation}")).json()
            (item,) = await waiting(served, "approver")
            assert [one["title"] for one in (listed, shown, item)] == ["send it"] * 3

    run(check)


def test_the_first_words_of_a_large_message_are_read_from_its_payload(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, answers("Done."))
        header = ConversationStarted(tenant="home", project="demo", user="ann")
        prompt = UserPrompt(text="A long letter" + " " * INLINE_BYTES)
        blocks = [Draft(TurnId("turn_1"), TS, TurnStarted(n=1)), Draft(TurnId("turn_1"), TS, prompt)]
        async with stage.serve() as served:
            # Stored after the start, so that no turn is resumed and ends.
            await stage.store.append(ConversationId("conv_left"), 0, [Draft(NO_TURN, TS, header), *blocks])
            (listed,) = (await served.ann.get(LIST)).json()["conversations"]
            assert (listed["title"], listed["state"]) == ("A long letter", "interrupted")

    run(check)
