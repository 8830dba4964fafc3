"""Calls that a call makes: on the timeline, behind the same gates and budgets, and out of the model's sight."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, blocks_of, calls, run
from timeloom.core.blocks import (
    AnyBlock,
    Gate,
    ModelAnswered,
    ResultContent,
    ResultStatus,
    RoundStarted,
    ToolCall,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.policy.budget import Allowance, Budgets
from timeloom.core.policy.gates import DEFAULT_POLICIES, Policy
from timeloom.ports.tool import Artifact, Outcome, ToolContext
from timeloom.runtime.replay.check_retrievable import check_retrieval
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools.define import FunctionTool, tool

OUTER, INNER = CallId("c1"), CallId("c2")


class Played:
    """A tool that makes the configured calls like a program, and records the answers."""

    def __init__(self, *wanted: tuple[str, str]) -> None:
        self.wanted = wanted
        self.got: list[Any] = []
        self.could: list[str] = []

    def tool(self) -> FunctionTool:
        async def play(context: ToolContext) -> str:
            """Plays."""
            nested = context.nested
            assert nested
            self.could = [spec.tool_id for spec in nested.specs]
            found = await asyncio.gather(*(nested.call(tool_id, params) for tool_id, params in self.wanted))
            self.got = [json.loads(one) for one in found]
            return "played"

        return tool("t.play", effect="idempotent")(play)


def staged(
    tmp_path: Path,
    played: Played,
    *extra: FunctionTool,
    policies: tuple[Policy, ...] = (),
    budgets: Budgets | None = None,
) -> TurnHarness:
    stage = TurnHarness(tmp_path, calls("t.play"), answers("done"))
    stage.extra = (played.tool(), *extra)
    stage.setting = replace(stage.setting, policies=policies, budgets=budgets or Budgets())
    return stage


async def finished(stage: TurnHarness) -> TurnRunner:
    turns = await stage.open()
    assert await turns.run("play") == "completed"
    return turns


async def cut_off(stage: TurnHarness, inner_id: str) -> TurnRunner:
    """A conversation whose call had made another when both were cut off, as another process finds it."""
    turns = await stage.open()
    reply = ModelAnswered(round=1, model="m", stop_reason="end", text=calls("t.play"))
    begun = [TurnStarted(n=1), UserPrompt(text="go"), RoundStarted(round=1), reply]
    outer = ToolCall(tool_id="t.play", tool_call_id=OUTER)
    inner = ToolCall(tool_id=inner_id, tool_call_id=INNER, by=OUTER)
    await turns.session.append([*begun, outer, inner], TurnId("turn_1"))
    return await stage.reopen(turns.session)


def inner_of(blocks: list[AnyBlock]) -> list[ToolCall]:
    return [block for block in blocks if isinstance(block, ToolCall) and block.by]


def test_a_nested_call_is_on_the_timeline_and_names_the_call_that_made_it(tmp_path: Path) -> None:
    async def check() -> None:
        played = Played(("t.look", '{"size": 2}'))
        turns = await finished(staged(tmp_path, played))
        blocks = await blocks_of(turns)
        outer, inner = [block for block in blocks if isinstance(block, ToolCall)]
        assert (inner.tool_id, inner.by, inner.params) == ("t.look", outer.tool_call_id, '{"size": 2}')
        assert played.got == [{"ok": True, "error": None, "ret": "x x "}]
        views = turns.session.views
        known = views.calls.get(views.progress.turn_id, outer.tool_call_id)
        assert known and known.inner == (inner.tool_call_id,)
        assert views.spend.total.tool_calls == 2
        assert not views.calls.open

    run(check)


def test_what_a_nested_call_left_is_out_of_sight_and_can_be_read(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, Played(("t.look", '{"size": 3}')))
        turns = await finished(stage)
        views = turns.session.views
        (inner,) = inner_of(await blocks_of(turns))
        path = f"tc:{views.progress.turn_id}.{inner.tool_call_id}"
        seqs = [*views.paths.find(f"{path}.call"), *views.paths.find(f"{path}.result")]
        assert len(seqs) > 1
        assert not {*seqs} & {*views.visible.shown}
        assert {*seqs} <= {*views.visible.gone}
        assert (await check_retrieval(stage.store, turns.session.conversation)).lost == ()

    run(check)


def test_a_program_may_call_what_the_conversation_allows_and_start_no_other(tmp_path: Path) -> None:
    async def check() -> None:
        async def execute(context: ToolContext) -> str:
            """Executes."""
            return context.tool_call_id

        exec_tool = tool("exec_tools.execute_code_python", effect="pure")(execute)
        played = Played(("exec_tools.execute_code_python", "{}"), ("nobody.has", "{}"), ("t.look", "[1]"))
        turns = await finished(staged(tmp_path, played, exec_tool))
        assert "t.look" in played.could
        assert "exec_tools.execute_code_python" not in played.could
        codes = [one["error"]["code"] for one in played.got]
        assert codes == ["unknown_tool", "unknown_tool", "tool_params_invalid"]
        assert inner_of(await blocks_of(turns)) == []

    run(check)


def test_gates_rule_on_nested_calls_and_nobody_is_asked(tmp_path: Path) -> None:
    async def check() -> None:
        played = Played(("t.send", "{}"))
        stage = staged(tmp_path, played, policies=DEFAULT_POLICIES)
        turns = await finished(stage)
        assert stage.effects == []
        (answer,) = played.got
        error = answer["error"]
        assert (error["code"], "call the tool directly" in error["message"]) == ("gate_refused", True)
        blocks = await blocks_of(turns)
        (gate,) = [block for block in blocks if isinstance(block, Gate)]
        assert (gate.verdict, gate.tool_call_id) == ("refuse", inner_of(blocks)[0].tool_call_id)

    run(check)


@pytest.mark.parametrize("scope", ["turn", "user"])
def test_nested_calls_spend_from_the_same_budgets_also_when_made_at_once(tmp_path: Path, scope: str) -> None:
    async def check() -> None:
        played = Played(*[("t.look", "{}")] * 5)
        budgets = replace(Budgets(), **{scope: Allowance(tool_calls=3)})
        stage = staged(tmp_path, played, budgets=budgets)
        turns = await finished(stage)
        assert [one["ok"] for one in played.got].count(True) == len(stage.effects) == 2
        assert len(inner_of(await blocks_of(turns))) == 5

    run(check)


def test_an_answer_has_what_the_call_left_by_path_where_it_left_several_things(tmp_path: Path) -> None:
    async def check() -> None:
        async def two(context: ToolContext) -> Outcome:
            """Leaves two."""
            paths = [f"fi:{context.turn_id}.files/{name}.txt" for name in "ab"]
            return Outcome(artifacts=tuple(Artifact(path=path, mime="text/plain", text=path[-5]) for path in paths))

        async def rows() -> list[int]:
            """Rows."""
            return [1, 2]

        async def nothing() -> None:
            """Nothing."""

        makers = [tool(f"t.{one.__name__}", effect="pure")(one) for one in (two, rows, nothing)]
        played = Played(("t.two", "{}"), ("t.rows", "{}"), ("t.nothing", "{}"), ("t.send", "{}"))
        await finished(staged(tmp_path, played, *makers))
        several, listed, _, sent = [one["ret"] for one in played.got]

        assert [one["text"] for one in several["artifacts"]] == ["a", "b"]
        assert (listed, sent) == ([1, 2], "sent")

    run(check)


def test_a_nested_call_that_is_stopped_with_its_program_has_a_receipt(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, Played(("t.wait", "{}")))
        turns = await stage.open()
        running = asyncio.create_task(turns.run("play"))
        await stage.waiting.wait()
        await turns.inbox.steer("never mind")
        assert await running == "completed"
        assert not turns.session.views.calls.open
        receipts = [block for block in await blocks_of(turns) if isinstance(block, ResultStatus)]
        assert [block.error and block.error.code for block in receipts] == ["tool_interrupted"] * 2

    run(check)


def test_a_nested_call_has_a_receipt_however_often_its_program_is_given_up(tmp_path: Path) -> None:
    async def check() -> None:
        async def give_up(context: ToolContext) -> str:
            """Gives up."""
            assert context.nested
            calling = [asyncio.create_task(context.nested.call("t.look", "{}")) for _ in range(20)]
            for pause in range(40):
                await asyncio.sleep(0.0005 if pause % 8 == 0 else 0)
                for one in calling[: pause // 2 + 1]:
                    one.cancel()
            await asyncio.wait(calling)
            return "given up"

        stage = staged(tmp_path, Played())
        stage.extra = (tool("t.play", effect="idempotent")(give_up),)
        turns = await finished(stage)
        views = turns.session.views
        assert not views.calls.open
        made = {block.tool_call_id for block in inner_of(await blocks_of(turns))}
        assert {*stage.effects} <= made

    run(check)


def test_a_program_that_did_what_cannot_be_undone_is_not_run_again_unasked(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, Played(("t.send", "{}")))
        turns = await cut_off(stage, "t.send")
        assert await turns.resume() == "waiting"
        assert stage.effects == []

    run(check)


def test_a_nested_call_that_a_crash_cut_off_is_closed_before_its_program_is_run_again(tmp_path: Path) -> None:
    async def check() -> None:
        stage = staged(tmp_path, Played(("t.look", "{}")))
        turns = await cut_off(stage, "t.look")
        assert await turns.resume() == "completed"
        blocks = await blocks_of(turns)
        receipts = [block.tool_call_id for block in blocks if isinstance(block, ResultStatus) and block.error]
        assert receipts == [INNER]
        again = inner_of(blocks)[-1].tool_call_id
        contents = [block.tool_call_id for block in blocks if isinstance(block, ResultContent)]
        assert contents == [again, OUTER]

    run(check)
