"""Compactions on request over HTTP: the answer, the events, the block of the outcome, and who may ask."""

from pathlib import Path
from typing import cast

from tests.harness.context import LOOK_WORDS
from tests.harness.replies import answers
from tests.server.server_harness import Json, RunningServer, ServerHarness, SseFrame, Step, calls, run

PROSE: Step = {"reply": "They looked.", "when": "compaction", "repeat": True}


def make_harness(tmp_path: Path, *steps: str | Step) -> ServerHarness:
    turns = [calls("t.look", size=LOOK_WORDS), answers("done")] * 3
    return ServerHarness(tmp_path, *turns, *steps, PROSE)


async def start(served: RunningServer) -> str:
    conversation = str((await served.ann.send_message("ask 1"))["conversation_id"])
    await served.ann.wait_for_state(conversation, "idle")
    for n in (2, 3):
        await served.ann.send_message(f"ask {n}", conversation)
        await served.ann.wait_for_state(conversation, "idle")
    return conversation


def is_outcome(frame: SseFrame) -> bool:
    return cast("Json", frame.data.get("block", {})).get("type") == "react.compact.end"


async def follow_until_outcome(served: RunningServer, conversation: str, after: int) -> list[SseFrame]:
    heard: list[SseFrame] = []
    async with served.ann.stream_conversation(conversation, after) as events:
        async for frame in events:
            heard.append(frame)
            if is_outcome(frame):
                return heard
    return heard


def test_a_request_is_accepted_and_its_outcome_is_a_block_of_the_stream(tmp_path: Path) -> None:
    async def check() -> None:
        async with make_harness(tmp_path).serve() as served:
            conversation = await start(served)
            path = f"/events/home/demo/{conversation}"
            body = {"kind": "compact", "text": "the prices", "keep": 1, "request_id": "r-1"}
            response = await served.ann.post(path, body)
            assert (response.status_code, response.json()["status"]) == (202, "compacting")
            seq: int = response.json()["seq"]
            heard = await follow_until_outcome(served, conversation, seq)
            meta = cast("Json", cast("Json", heard[-1].data["block"])["meta"])
            assert (meta["outcome"], meta["message_id"], meta["turns"]) == ("completed", "r-1", 3)
            again = await served.ann.post(path, body)
            assert (again.json()["status"], again.json()["seq"]) == ("compacted", seq)
            blocks = await served.ann.blocks(conversation)
            types = [block["type"] for block in blocks]
            assert types.count("react.compact.request") == types.count("conv.range.summary") == 1
            assert (blocks[seq - 1]["text"], blocks[seq - 1]["author"]) == ("the prices", "user")

    run(check)


def test_a_request_during_a_turn_is_queued(tmp_path: Path) -> None:
    async def check() -> None:
        harness = make_harness(tmp_path, calls("t.wait"), answers("done"))
        async with harness.serve() as served:
            conversation = await start(served)
            await served.ann.send_message("ask 4", conversation)
            await harness.waiting.wait()
            sent = await served.ann.send(conversation, "compact")
            assert sent["status"] == "queued"
            assert isinstance(sent["seq"], int)
            await served.ann.send(conversation, "steer", "go on")
            assert is_outcome((await follow_until_outcome(served, conversation, sent["seq"]))[-1])
            await served.ann.wait_for_state(conversation, "idle")

    run(check)


def test_a_malformed_request_is_refused_with_the_fix(tmp_path: Path) -> None:
    async def check() -> None:
        async with make_harness(tmp_path).serve() as served:
            conversation = str((await served.ann.send_message("ask"))["conversation_id"])
            for body in (
                {"kind": "compact", "text": "x" * 2_001},
                {"kind": "compact", "keep": -1},
                {"kind": "compact", "keep": 1_001},
                {"kind": "compact", "request_id": "../x"},
                {"kind": "alert", "keep": 1},
                {"kind": "followup", "text": "x", "request_id": "r1"},
            ):
                response = await served.ann.post(f"/events/home/demo/{conversation}", body)
                assert (response.status_code, response.json()["code"]) == (400, "request_malformed"), body

    run(check)


def test_only_those_who_may_write_to_a_conversation_may_compact_it(tmp_path: Path) -> None:
    async def check() -> None:
        async with make_harness(tmp_path).serve() as served:
            conversation = str((await served.ann.send_message("ask"))["conversation_id"])
            await served.ann.wait_for_state(conversation, "idle")
            for token in ("bob", "approver", "tenant", "project"):
                response = await served.client(token).post(f"/events/home/demo/{conversation}", {"kind": "compact"})
                assert response.status_code in (403, 404), token
            assert "react.compact.request" not in [block["type"] for block in await served.ann.blocks(conversation)]

    run(check)
