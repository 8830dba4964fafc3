"""Re-runs: what follows an entry, run again on a fork with a model of one's choice, and both courses side by side."""

import asyncio
from pathlib import Path

import msgspec
from server_stage import LIST, Client, Json, Served, Stage, answers, calls, run

from timeloom.core.ids import ConversationId
from timeloom.providers.script import Step
from timeloom.runtime.compare import Comparison
from timeloom.server.again import ComparedFork
from timeloom.testing import ScriptedModel

LOOK = calls("t.look", size=3)
AGREES = (LOOK, answers("At ten."))


def a_stage(folder: Path, *other: str | Step) -> Stage:
    stage = Stage(folder, LOOK, answers("At nine."))
    stage.models = (ScriptedModel(other or AGREES, name="script:other.yaml"),)
    return stage


async def told(served: Served) -> str:
    said = await served.ann.say("When do ferries leave?")
    await served.ann.until(str(said["conversation_id"]), "idle")
    return str(said["conversation_id"])


async def first_call(client: Client, conversation: str) -> int:
    """The entry before the first request to the model."""
    blocks = await client.blocks(conversation)
    return next(n for n, block in enumerate(blocks) if block["type"] == "react.model.call")


async def started(client: Client, conversation: str, model: str = "") -> str:
    body = {"seq": await first_call(client, conversation), "model": model}
    response = await client.post(f"{LIST}/{conversation}/rerun", body)
    assert response.status_code == 202, response.text
    return response.json()["conversation_id"]


async def compared(client: Client, fork: str) -> Comparison:
    """Both courses, once the re-run is over."""
    while True:
        response = await client.get(f"{LIST}/{fork}/comparison", turns=1)
        assert response.status_code == 200, response.text
        found = msgspec.json.decode(response.content, type=ComparedFork)
        if found.status.state != "running":
            return found.comparison
        await asyncio.sleep(0.01)


def test_another_model_runs_again_what_was_recorded(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_stage(tmp_path).serve() as served:
            assert (await served.ann.get("/me")).json()["models"] == ["script", "script:other.yaml"]
            conversation = await told(served)
            before = await served.ann.blocks(conversation)
            fork = await started(served.ann, conversation, model="script:other.yaml")
            found = await compared(served.ann, fork)
            assert (found.recorded_models, found.rerun_models) == (("script",), ("script:other.yaml",))
            (turn,) = found.turns
            assert [pair.verdict for pair in turn.rounds] == ["same", "differs"]
            last = turn.rounds[1]
            assert last.recorded and last.rerun
            assert (last.recorded.answer, last.rerun.answer) == ("At nine.", "At ten.")
            assert turn.recorded_end == turn.rerun_end == "completed"
            assert found.rerun.requests == 2 and found.rerun.usage.output_tokens > 0
            assert await served.ann.blocks(conversation) == before
            # It is a conversation like any other, and goes on with the server's own model.
            assert (await served.ann.get(f"{LIST}/{fork}/status")).json()["state"] == "idle"

    run(check)


def test_without_a_name_it_is_the_servers_own_model(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_stage(tmp_path).serve() as served:
            found = await compared(served.ann, await started(served.ann, await told(served)))
            assert found.is_same and found.rerun_models == ("script",)

    run(check)


def test_all_turns_that_follow_are_run_again_or_as_many_as_are_asked_for(tmp_path: Path) -> None:
    async def check() -> None:
        stage = a_stage(tmp_path, LOOK, answers("At ten."), answers("By noon."))
        stage.model = ScriptedModel([LOOK, answers("At nine."), answers("By noon.")])
        async with stage.serve() as served:
            conversation = await told(served)
            await served.ann.say("And when are they there?", conversation)
            await served.ann.until(conversation, "idle")
            path, seq = f"{LIST}/{conversation}/rerun", await first_call(served.ann, conversation)
            for turns, verdicts in ((None, ["differs", "same"]), (1, ["differs", "only_recorded"])):
                body = {"seq": seq, "model": "script:other.yaml", "turns": turns}
                fork = (await served.ann.post(path, body)).json()["conversation_id"]
                assert [turn.verdict for turn in (await compared(served.ann, fork)).turns] == verdicts[:1]
                whole = msgspec.json.decode((await served.ann.get(f"{LIST}/{fork}/comparison")).content)
                assert [turn["verdict"] for turn in whole["comparison"]["turns"]] == verdicts

    run(check)


def test_what_cannot_be_run_again_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_stage(tmp_path).serve() as served:
            conversation = await told(served)
            tail = len(await served.ann.blocks(conversation))
            refused: list[tuple[Json, int, str]] = [
                ({"seq": 3, "model": "script:none.yaml"}, 404, "model_unknown"),
                ({"seq": tail, "model": "script:other.yaml"}, 404, "entry_unknown"),
                ({"seq": tail + 1}, 404, "entry_unknown"),
                ({"seq": 0}, 400, "request_malformed"),
            ]
            for body, status, code in refused:
                response = await served.ann.post(f"{LIST}/{conversation}/rerun", body)
                assert (response.status_code, response.json()["code"]) == (status, code)
            nothing = await served.ann.get(f"{LIST}/{conversation}/comparison")
            assert (nothing.status_code, nothing.json()["code"]) == (404, "entry_unknown")
            assert len((await served.ann.get(LIST)).json()["conversations"]) == 1

    run(check)


def test_only_who_sees_the_conversation_sees_what_came_of_it(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_stage(tmp_path).serve() as served:
            fork = await started(served.ann, await told(served), model="script:other.yaml")
            await compared(served.ann, fork)
            for token, status in (("bob", 404), ("tenant-admin", 404), ("approver", 200), ("admin", 200)):
                got = await served.client(token).get(f"{LIST}/{fork}/comparison")
                assert (token, got.status_code) == (token, status)
                assert status == 200 or "At ten" not in got.text

    run(check)


def slow() -> Step:
    return Step(reply=answers("At ten, by and by."), chunk=1, delay_ms=1000)


def test_a_run_that_is_deleted_asks_no_more(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_stage(tmp_path, slow()).serve() as served:
            fork = await started(served.ann, await told(served), model="script:other.yaml")
            assert served.place.reruns.is_running(ConversationId(fork))
            gone = await served.http.delete(f"{LIST}/{fork}", headers=served.ann.headers)
            assert gone.status_code == 204
            assert (await served.ann.get(f"{LIST}/{fork}/status")).status_code == 404

    run(check)


def test_a_run_that_is_broken_off_ends_its_turn(tmp_path: Path) -> None:
    async def check() -> None:
        async with a_stage(tmp_path, slow()).serve() as served:
            fork = await started(served.ann, await told(served), model="script:other.yaml")
            for status in (204, 409):
                gone = await served.http.delete(f"{LIST}/{fork}/rerun", headers=served.ann.headers)
                assert gone.status_code == status, gone.text
            (turn,) = (await compared(served.ann, fork)).turns
            assert (turn.recorded_end, turn.rerun_end) == ("completed", "cancelled")

    run(check)


def test_a_server_that_closes_ends_the_turn_of_a_run(tmp_path: Path) -> None:
    async def check() -> None:
        stage = a_stage(tmp_path, slow())
        async with stage.serve() as served:
            conversation = await told(served)
            before = await first_call(served.ann, conversation)
            fork = await started(served.ann, conversation, model="script:other.yaml")
            async with served.ann.hearing(fork, before) as events:
                async for event in events:
                    block = event.data.get("block")
                    if isinstance(block, dict) and block["type"] == "react.model.call":
                        break
        async with stage.serve(recovers=True) as served:
            found = await compared(served.ann, fork)
            (turn,) = found.turns
            assert (turn.recorded_end, turn.rerun_end) == ("completed", "cancelled")
            assert found.rerun_models == ("script:other.yaml",)

    run(check)
