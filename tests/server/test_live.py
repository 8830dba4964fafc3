"""Messages to a running, waiting or ended turn are stored once and acknowledged on receipt and on use."""

import asyncio
from pathlib import Path

from tests.harness.replies import answers, slow_reply
from tests.server.server_harness import LIST, Json, RunningServer, ServerHarness, SseFrame, calls, repeated_reply, run
from timeloom.core.policy.next_step import TurnLimits


async def begun(stage: ServerHarness, served: RunningServer) -> str:
    """A conversation whose turn is in the middle of a tool."""
    conversation = str((await served.ann.send_message("go"))["conversation_id"])
    await stage.waiting.wait()
    return conversation


def types(blocks: list[Json]) -> list[object]:
    return [block["type"] for block in blocks]


async def completed(served: RunningServer, conversation: str) -> list[SseFrame]:
    """All events up to the end of the turn."""
    heard: list[SseFrame] = []
    async with served.ann.stream_conversation(conversation) as events:
        async for frame in events:
            heard.append(frame)
            if frame.event == "chat.complete":
                break
    return heard


def test_a_follow_up_is_acknowledged_by_its_place_and_seen_by_the_next_request(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, slow_reply(calls("t.look"), delay_ms=30), answers("Both."))
        async with stage.serve() as served:
            first = await served.ann.send_message("go")
            conversation = str(first["conversation_id"])
            assert first["status"] == "started"
            said = await served.ann.send_message("and this", conversation)
            assert (said["status"], said["turn_id"]) == ("followup", first["turn_id"])
            heard = await completed(served, conversation)
            blocks = await served.ann.blocks(conversation)
            assert isinstance(said["seq"], int)
            place = blocks[said["seq"] - 1]
            assert (place["type"], place["text"]) == ("user.followup", "and this")
            steps = [frame.data for frame in heard if frame.event == "chat.step"]
            (seen, *_) = [step for step in steps if int(str(step.get("seen", 0))) >= said["seq"]]
            assert (seen["step"], seen["round"]) == ("model", 2)
            assert types(blocks).count("user.followup") == 1

    run(check)


def test_a_steer_interrupts_a_tool_and_the_turn_takes_the_other_course(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.wait"), answers("The other way."))
        async with stage.serve() as served:
            conversation = await begun(stage, served)
            said = await served.ann.send(conversation, "steer", "the other way")
            assert said["status"] == "steered"
            heard = await completed(served, conversation)
            assert heard[-1].data["reason"] == "completed"
            blocks = await served.ann.blocks(conversation)
            assert types(blocks).count("user.steer") == 1
            assert "The other way." in [block.get("text") for block in blocks]

    run(check)


def test_a_steer_without_text_stops_and_a_cancellation_cancels(tmp_path: Path) -> None:
    async def check() -> None:
        for kind, reason in (("steer", "stopped"), ("cancel", "cancelled")):
            stage = ServerHarness(tmp_path, calls("t.wait"), answers("never"))
            async with stage.serve() as served:
                conversation = await begun(stage, served)
                await served.ann.send(conversation, kind)
                assert (await completed(served, conversation))[-1].data["reason"] == reason
                again = await served.ann.post(f"/events/home/demo/{conversation}", {"kind": kind})
                assert (again.status_code, again.json()["code"]) == (409, "turn_not_running")

    run(check)


def test_any_other_event_is_told_to_the_turn_under_the_name_of_who_sent_it(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(
            tmp_path, slow_reply(calls("t.look"), delay_ms=30), answers("Seen.")
        ).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            body = {"kind": "form", "text": '{"size": 3}', "mime": "application/json"}
            response = await served.ann.post(f"/events/home/demo/{conversation}", body)
            assert response.json()["status"] == "told"
            await completed(served, conversation)
            seq: int = response.json()["seq"]
            block = (await served.ann.blocks(conversation))[seq - 1]
            assert (block["type"], block["author"], block["text"]) == ("external.event", "ann", '{"size": 3}')

    run(check)


def test_what_comes_after_the_end_opens_the_next_turn(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, *(answers(f"{n}.") for n in range(4))).serve() as served:
            first = await served.ann.send_message("go")
            conversation = str(first["conversation_id"])
            turns = {first["turn_id"]}
            for kind in ("followup", "steer", "alert"):
                await served.ann.wait_for_state(conversation, "idle")
                said = await served.ann.send(conversation, kind, f"by {kind}")
                assert said["status"] == "started"
                turns.add(said["turn_id"])
            await served.ann.wait_for_state(conversation, "idle")
            blocks = await served.ann.blocks(conversation)
            assert len(turns) == 4
            assert types(blocks).count("turn.header") == types(blocks).count("assistant.completion") == 4
            assert types(blocks).count("user.prompt") == 3

    run(check)


def test_a_turn_waits_for_a_person_and_goes_on_with_the_decision(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.send"), answers("Sent."))
        async with stage.serve() as served:
            async with served.ann.post_and_stream("go") as events:
                heard = [frame async for frame in events]
            # The stream of the message ends here: nobody knows how long the person takes.
            assert (heard[-1].event, heard[-1].data["state"]) == ("conv.status", "waiting")
            (asked,) = [frame.data for frame in heard if frame.event == "chat.approval"]
            assert (asked["tool_id"], stage.sent) == ("t.send", [])
            conversation = str(heard[-1].data["conversation_id"])
            assert heard[-1].data["approvals"] == [{name: asked[name] for name in ("tool_call_id", "tool_id", "text")}]
            assert asked["text"]
            url = f"{LIST}/{conversation}/approvals/{asked['tool_call_id']}"
            decided = await served.ann.post(url, {"approved": True, "text": "fine"})
            assert (decided.status_code, decided.json()["status"]) == (202, "decided")
            await served.ann.wait_for_state(conversation, "idle")
            assert len(stage.sent) == 1
            seq: int = decided.json()["seq"]
            block = (await served.ann.blocks(conversation))[seq - 1]
            assert block["type"] == "react.approval.decision"
            again = await served.ann.post(url, {"approved": True})
            assert (again.status_code, again.json()["code"]) == (409, "approval_unknown")

    run(check)


def test_nothing_is_lost_or_doubled_when_many_speak_at_once(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(tmp_path, repeated_reply(answers("Done."))).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            words = [f"word {n}" for n in range(30)]
            said = await asyncio.gather(*(served.ann.send_message(word, conversation) for word in words))
            await served.ann.wait_for_state(conversation, "idle")
            blocks = await served.ann.blocks(conversation)
            for word, accepted in zip(words, said, strict=True):
                assert isinstance(accepted["seq"], int)
                assert blocks[accepted["seq"] - 1]["text"] == word
            spoken = [block["text"] for block in blocks if block["type"] in ("user.prompt", "user.followup")]
            assert sorted(map(str, spoken)) == sorted(["go", *words])
            assert types(blocks).count("turn.header") == types(blocks).count("react.turn.end")

    run(check)


def starts(blocks: list[Json], seq: object) -> list[object]:
    """The types of the blocks around that one."""
    assert isinstance(seq, int)
    return types(blocks[:seq])


def test_a_follow_up_to_an_answer_on_its_way_goes_on_and_the_earlier_answer_gets_its_number(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(
            tmp_path, slow_reply(answers("The first answer."), delay_ms=20), answers("The second answer.")
        )
        async with stage.serve() as served:
            async with served.ann.post_and_stream("go") as events:
                heard = [await anext(events)]
                async for frame in events:
                    heard.append(frame)
                    if frame.event == "chat.delta":
                        break
                conversation = str(heard[0].data["conversation_id"])
                said = await served.ann.send_message("and back?", conversation)
                heard += [frame async for frame in events]
            assert (said["status"], heard[-1].data["reason"]) == ("followup", "completed")
            blocks = await served.ann.blocks(conversation)
            # Inside the round that was open, before its answer.
            assert starts(blocks, said["seq"])[-3:] == ["react.round.start", "react.model.call", "user.followup"]
            export = (await served.ann.get(f"{LIST}/{conversation}/timeline", form="export")).json()
            paths = [(one["path"], one["text"]) for one in export["blocks"] if one["type"] == "assistant.completion"]
            place = f"ar:{said['turn_id']}.assistant.completion"
            assert paths == [(f"{place}.1", "The first answer."), (place, "The second answer.")]

    run(check)


def test_every_follow_up_earns_a_round(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, slow_reply(calls("t.look"), delay_ms=10), *(calls("t.look") for _ in range(40)))
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            for kind in ("followup", "alert", "form"):
                await served.ann.send(conversation, kind, "and this")
            await completed(served, conversation)
            blocks = await served.ann.blocks(conversation)
            assert types(blocks).count("react.round.start") == TurnLimits().max_iterations + 3

    run(check)


def test_a_steer_cuts_a_generation_short_keeps_what_was_said_and_leaves_a_few_rounds(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(
            tmp_path,
            slow_reply(answers("A long answer that nobody wants."), delay_ms=60_000),
            repeated_reply(calls("t.look")),
        )
        async with stage.serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            async with served.ann.stream_conversation(conversation) as events:
                async for frame in events:
                    if frame.event == "chat.step" and frame.data["step"] == "model":
                        break
            said = await served.ann.send(conversation, "steer", "the other way")
            heard = await completed(served, conversation)
            assert heard[-1].data["reason"] == "max_iterations"
            blocks = await served.ann.blocks(conversation)
            assert isinstance(said["seq"], int)
            outcome = next(block for block in blocks[said["seq"] :] if block["type"] == "react.model.outcome")
            assert outcome["meta"] and "steered" in str(outcome["meta"])
            assert types(blocks).count("react.round.start") == 1 + TurnLimits().finalize_rounds

    run(check)


def test_restored_order_follows_the_times_at_which_events_began(tmp_path: Path) -> None:
    async def check() -> None:
        stage = ServerHarness(tmp_path, calls("t.look"), calls("t.wait"), answers("Seen."))
        async with stage.serve() as served:
            conversation = await begun(stage, served)
            blocks = await served.ann.blocks(conversation)
            first, second = [str(block["ts"]) for block in blocks if block["type"] == "react.round.start"]
            seqs: list[object] = []
            # The later of them overtook the other on its way here.
            for kind, began in (("alert", second), ("wizard", first), ("followup", ""), ("steer", "")):
                body = {"kind": kind, "text": kind, "started_ts": began}
                said: Json = (await served.ann.post(f"/events/home/demo/{conversation}", body)).json()
                seqs.append(said["seq"])
            await served.ann.wait_for_state(conversation, "idle")
            blocks = await served.ann.blocks(conversation)
            shown = (await served.ann.get(f"{LIST}/{conversation}/timeline", form="restored")).json()["blocks"]
            order = [one["seq"] for one in shown]
            assert sorted(order) == list(range(1, len(blocks) + 1))
            alert, wizard, followup, steer = (order.index(seq) for seq in seqs)
            rounds = [order.index(seq) for seq, kind in enumerate(types(blocks), 1) if kind == "react.round.start"]
            assert rounds[0] < wizard < rounds[1] < alert < followup < steer
            assert [one["block"] for one in sorted(shown, key=lambda one: one["seq"])] == blocks

    run(check)


def test_events_carry_the_time_at_which_they_began(tmp_path: Path) -> None:
    async def check() -> None:
        async with ServerHarness(
            tmp_path, slow_reply(calls("t.look"), delay_ms=30), answers("Seen.")
        ).serve() as served:
            conversation = str((await served.ann.send_message("go"))["conversation_id"])
            began = "2026-02-09T02:14:32.676425Z"
            for kind in ("followup", "steer", "wizard"):
                body = {"kind": kind, "text": "x", "started_ts": began}
                said: Json = (await served.ann.post(f"/events/home/demo/{conversation}", body)).json()
                assert isinstance(said["seq"], int)
                block = (await served.ann.blocks(conversation))[said["seq"] - 1]
                assert isinstance(block["meta"], dict)
                assert (block["meta"]["started_ts"], str(block["ts"]) > began) == (began, True)
            await served.ann.wait_for_state(conversation, "idle")

    run(check)
