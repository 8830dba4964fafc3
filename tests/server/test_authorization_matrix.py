"""Conversations with other participants: approvers who read and decide, and admins who send messages."""

import json
from pathlib import Path
from typing import Any

from tests.harness.replies import answers
from tests.server.server_harness import CHAT, LIST, RunningServer, ServerHarness, calls, repeated_reply, run
from tests.server.test_ag_ui import asks, heard
from tests.server.test_socketio import connected
from tests.server.test_websocket import opened, until
from timeloom.server.auth.access_policy import AccessPolicy

AUDIT = "/audit/home/demo"
Told = dict[str, Any]


async def waiting(served: RunningServer, conversation: str = "") -> tuple[str, str]:
    """A conversation of ann that waits for a decision, and on which call."""
    conversation = str((await served.ann.send_message("send it", conversation))["conversation_id"])
    status: Told = await served.ann.wait_for_state(conversation, "waiting")
    return conversation, str(status["approvals"][0]["tool_call_id"])


async def audited(served: RunningServer, user: str) -> list[tuple[str, int]]:
    """Return the decisions of that user on the audit trail."""
    entries: list[Told] = (await served.client("admin").get(AUDIT)).json()["entries"]
    return [(one["call_id"], one.get("status", 0)) for one in entries if one["user"] == user and one.get("call_id")]


def a_stage(folder: Path) -> ServerHarness:
    stage = ServerHarness(folder, *[calls("t.send"), answers("Sent.")] * 3, repeated_reply(answers("Done.")))
    stage.rules = AccessPolicy(approvals="approver")
    return stage


def test_an_approver_hears_and_decides_on_a_socket_and_does_not_speak(tmp_path: Path) -> None:
    async def check() -> None:
        stage = a_stage(tmp_path)
        async with stage.serve() as served:
            conversation, call = await waiting(served)
            async with opened(served, conversation, token="approver") as held:
                await held.send(json.dumps({"event": "chat.message", "data": {"message": "hello"}}))
                assert (await until(held, "refused"))[-1]["data"]["code"] == "forbidden"
                decision: Told = {"call_id": "0123456789ab", "approved": True}
                await held.send(json.dumps({"event": "chat.decision", "data": decision}))
                assert (await until(held, "refused"))[-1]["data"]["code"] == "approval_unknown"
                await held.send(json.dumps({"event": "chat.decision", "data": decision | {"call_id": call}}))
                assert (await until(held, "accepted"))[-1]["data"]["status"] == "decided"
            await served.ann.wait_for_state(conversation, "idle")
            async with opened(served, conversation) as held:
                await held.send(json.dumps({"event": "chat.decision", "data": {"call_id": call, "approved": True}}))
                assert (await until(held, "refused"))[-1]["data"]["code"] == "forbidden"
            assert stage.sent == [call]
            assert await audited(served, "eve") == [("0123456789ab", 0), ("0123456789ab", 409), (call, 0), (call, 202)]

    run(check)


def test_an_approver_decides_by_socketio_and_by_ag_ui(tmp_path: Path) -> None:
    async def check() -> None:
        stage = a_stage(tmp_path)
        async with stage.serve() as served:
            conversation, first = await waiting(served)
            async with connected(served, {"token": "approver"}) as eve:
                assert (await eve.join(conversation))["conversation_id"] == conversation
                assert (await eve.client.call("chat.message", {"message": "x"}))["error"]
                said = await eve.client.call("chat.decision", {"call_id": first, "approved": False, "text": "No."})
                assert said["status"] == "decided"
            await served.ann.wait_for_state(conversation, "idle")
            _, second = await waiting(served, conversation)
            resume: list[Told] = [{"interruptId": second, "status": "resolved", "payload": {"approved": True}}]
            found = await heard(served.client("approver"), asks("", resume=resume) | {"threadId": conversation})
            assert found[-1]["type"] == "RUN_FINISHED"
            assert stage.sent == [second]
            assert await audited(served, "eve") == [(first, 0), (first, 202), (second, 0), (second, 200)]

    run(check)


def test_an_approver_reads_what_was_thought_of_turns(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            url = f"{LIST}/{conversation}/turns-with-feedbacks"
            assert (await served.client("approver").post(url, {})).status_code == 200
            assert (await served.client("bob").post(url, {})).status_code == 404

    run(check)


def test_what_an_admin_says_to_somebody_elses_agent_has_their_name(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"), repeated_reply(answers("Done.")))
        async with stage.serve() as served:
            admin = served.client("admin")
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            await stage.waiting.wait()
            await admin.send(conversation, "followup", "and this")
            await served.ann.send(conversation, "followup", "and that")
            await admin.send(conversation, "steer", "now this")
            await served.ann.wait_for_state(conversation, "idle")
            await admin.post(CHAT, {"message": "by post", "conversation_id": conversation})
            await served.ann.wait_for_state(conversation, "idle")
            async with opened(served, conversation, token="admin") as held:
                await held.send(json.dumps({"event": "chat.message", "data": {"message": "by socket"}}))
                await until(held, "accepted")
            await served.ann.wait_for_state(conversation, "idle")
            completion = {"model": "timeloom", "messages": [{"role": "user", "content": "by completion"}]}
            named = {"x-conversation-id": conversation, "x-timeloom-project": "demo"}
            await served.http.post("/v1/chat/completions", json=completion, headers=admin.headers | named)
            kinds = ("user.prompt", "user.followup", "user.steer")
            said = [
                (one["text"], one["author"]) for one in await served.ann.blocks(conversation) if one["type"] in kinds
            ]
            assert said == [
                ("go", "user"),
                ("and this", "root"),
                ("and that", "user"),
                ("now this", "root"),
                ("by post", "root"),
                ("by socket", "root"),
                ("by completion", "root"),
            ]

    run(check)
