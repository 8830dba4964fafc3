"""Re-runs over HTTP: a fork from an entry with another model, and the comparison of both runs."""

import asyncio
from pathlib import Path

import msgspec

from tests.harness.replies import answers
from tests.server.server_harness import LIST, ApiClient, Json, RunningServer, ServerHarness, calls, run
from timeloom.core.ids import ConversationId
from timeloom.providers.script import Step
from timeloom.runtime.rerun.compare import Comparison
from timeloom.server.rate_limit import RateLimits
from timeloom.server.routes.reruns import ForkComparison
from timeloom.testing import ScriptedModel

LOOK = calls("t.look", size=3)
AGREES = (LOOK, answers("At ten."))


def a_stage(folder: Path, *other: str | Step) -> ServerHarness:
    stage = ServerHarness(folder, LOOK, answers("At nine."))
    stage.models = (ScriptedModel(other or AGREES, name="script:other.yaml"),)
    return stage


async def told(served: RunningServer) -> str:
    said = await served.ann.send_message("When do ferries leave?")
    await served.ann.wait_for_state(str(said["conversation_id"]), "idle")
    return str(said["conversation_id"])


async def first_call(client: ApiClient, conversation: str) -> int:
    """The entry before the first request to the model."""
    blocks = await client.blocks(conversation)
    return next(n for n, block in enumerate(blocks) if block["type"] == "react.model.call")


async def started(client: ApiClient, conversation: str, model: str = "") -> str:
    body = {"seq": await first_call(client, conversation), "model": model}
    response = await client.post(f"{LIST}/{conversation}/rerun", body)
    assert response.status_code == 202, response.text
    return response.json()["conversation_id"]


async def compared(client: ApiClient, fork: str) -> Comparison:
    """Both courses, once the re-run is over."""
    while True:
        response = await client.get(f"{LIST}/{fork}/comparison", turns=1)
        assert response.status_code == 200, response.text
        found = msgspec.json.decode(response.content, type=ForkComparison)
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
            await served.ann.send_message("And when are they there?", conversation)
            await served.ann.wait_for_state(conversation, "idle")
            path, seq = f"{LIST}/{conversation}/rerun", await first_call(served.ann, conversation)
            for turns, verdicts in ((None, ["differs", "same"]), (1, ["differs", "only_recorded"])):
                body = {"seq": seq, "model": "script:other.yaml", "turns": turns}
                fork = (await served.ann.post(path, body)).json()["conversation_id"]
                assert [turn.verdict for turn in (await compared(served.ann, fork)).turns] == verdicts[:1]
                whole = msgspec.json.decode((await served.ann.get(f"{LIST}/{fork}/comparison")).content)
                assert [turn["verdict"] for turn in whole["comparison"]["turns"]] == verdicts

    run(check)


async def pages(client: ApiClient, fork: str, **query: str | int) -> list[ForkComparison]:
    """All that is compared, page by page."""
    found: list[ForkComparison] = []
    while not found or found[-1].cursor:
        got = await client.get(f"{LIST}/{fork}/comparison", **query, cursor=found[-1].cursor if found else "")
        assert got.status_code == 200, got.text
        found.append(msgspec.json.decode(got.content, type=ForkComparison))
    return found


def test_comparisons_come_in_pages_of_turns(tmp_path: Path) -> None:
    async def check() -> None:
        questions = 25
        stage = a_stage(tmp_path, LOOK, *(answers(f"Other {n}.") for n in range(questions)))
        stage.model = ScriptedModel([LOOK, *(answers(f"Answer {n}.") for n in range(questions + 2))])
        async with stage.serve() as served:
            conversation = await told(served)
            seq = await first_call(served.ann, conversation)
            for n in range(1, questions):
                await served.ann.send_message(f"Question {n}?", conversation)
                await served.ann.wait_for_state(conversation, "idle")
            body = {"seq": seq, "model": "script:other.yaml"}
            fork = (await served.ann.post(f"{LIST}/{conversation}/rerun", body)).json()["conversation_id"]
            await compared(served.ann, fork)
            for _ in range(2):
                await served.ann.send_message("Only here?", fork)
                await served.ann.wait_for_state(fork, "idle")
            whole, paged = await pages(served.ann, fork), await pages(served.ann, fork, turns=4)
            assert [len(page.comparison.turns) for page in whole] == [20, questions + 2 - 20]
            assert [len(page.comparison.turns) for page in paged] == [4] * 6 + [3]
            turns = [turn for page in paged for turn in page.comparison.turns]
            assert turns == [turn for page in whole for turn in page.comparison.turns]
            assert [turn.verdict for turn in turns] == ["differs"] * questions + ["only_rerun"] * 2
            assert sum(page.comparison.recorded.requests for page in paged) == questions + 1
            assert [page.comparison.recorded.requests for page in paged][:2] == [5, 4]
            for query, code in (({"turns": 101}, "request_malformed"), ({"cursor": "x"}, "cursor_malformed")):
                refused = await served.ann.get(f"{LIST}/{fork}/comparison", **query)
                assert (refused.status_code, refused.json()["code"]) == (400, code)

    run(check)


def test_a_fork_of_an_earlier_turn_is_compared_from_there(tmp_path: Path) -> None:
    async def check() -> None:
        stage = a_stage(tmp_path)
        stage.model = ScriptedModel([LOOK, answers("At nine."), answers("By noon."), answers("By one.")])
        async with stage.serve() as served:
            conversation = await told(served)
            await served.ann.send_message("And when are they there?", conversation)
            await served.ann.wait_for_state(conversation, "idle")
            path = f"{LIST}/{conversation}"
            fork = (await served.ann.post(f"{path}/fork", {"turn": "1"})).json()["conversation"]
            turn = next(block["turn_id"] for block in await served.ann.blocks(fork) if block["type"] == "turn.header")
            given = await served.ann.post(f"{path}/turns/{turn}/feedback", {"reaction": "ok"})
            assert given.status_code == 201
            # What was said later about the turn before is not one of the turns that follow.
            found = await compared(served.ann, fork)
            assert [(pair.prompt, pair.verdict) for pair in found.turns] == [
                ("And when are they there?", "only_recorded")
            ]

    run(check)


def test_only_so_many_run_at_once(tmp_path: Path) -> None:
    async def check() -> None:
        stage = a_stage(tmp_path, slow())
        stage.limits = RateLimits(reruns=2, all_reruns=3)
        async with stage.serve() as served:
            ann, admin = served.ann, served.client("admin")
            conversation = await told(served)
            seq = await first_call(ann, conversation)
            forks = [await started(ann, conversation, "script:other.yaml") for _ in range(2)]

            async def refused(client: ApiClient) -> str:
                response = await client.post(f"{LIST}/{conversation}/rerun", {"seq": seq, "model": "script:other.yaml"})
                assert (response.status_code, response.headers["retry-after"]) == (429, "5")
                assert response.json()["code"] == "reruns_busy"
                return response.json()["detail"]

            assert "raise server.limits.reruns" in await refused(ann)
            await started(admin, conversation, "script:other.yaml")
            assert "raise server.limits.all_reruns" in await refused(admin)
            await served.http.delete(f"{LIST}/{forks[0]}/rerun", headers=ann.headers)
            await started(ann, conversation, "script:other.yaml")

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
            assert served.services.reruns.is_running(ConversationId(fork))
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
            async with served.ann.stream_conversation(fork, before) as events:
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
