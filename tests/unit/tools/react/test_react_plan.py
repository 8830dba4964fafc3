"""react.plan records plans as the orders leave them, and says how they stand."""

from pathlib import Path

import msgspec
import pytest

from tests.harness.react_tools import T1, T2, TS, ToolHarness, decode_status, open_tool_harness
from timeloom.core.blocks import PlanRecorded
from timeloom.core.codes import CodedError
from timeloom.core.plans.changes import PlanMode
from timeloom.ports.tool import Outcome
from timeloom.tools.react.plan import ChangedPlan, plan
from timeloom.tools.react.read import ReadTool

pytestmark = pytest.mark.anyio
STEPS = ("collect metrics", "compare trends", "draft answer")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    return await open_tool_harness(tmp_path)


async def planned(stage: ToolHarness, mode: PlanMode, steps: tuple[str, ...] = (), plan_id: str = "") -> Outcome:
    context = stage.context(T2)
    outcome = await plan(context, mode, steps, plan_id)
    await stage.record("react.plan", context, outcome)
    return outcome


async def test_a_new_plan_is_recorded_and_becomes_the_current_one(stage: ToolHarness) -> None:
    outcome = await planned(stage, "new", STEPS)
    (block,) = outcome.blocks
    assert isinstance(block, PlanRecorded)
    assert (block.snapshot.steps, block.snapshot.created_ts, block.change) == (STEPS, TS, "new")
    plan_id = block.snapshot.plan_id
    assert plan_id.startswith("plan:turn_2:")
    assert decode_status(outcome) == {
        "mode": "new",
        "changed": [
            {
                "plan_id": plan_id,
                "state": "open",
                "current": True,
                "steps": 3,
                "path": f"ar:plan.latest:{plan_id}",
            }
        ],
        "current": plan_id,
    }
    assert stage.views.plans.current == plan_id


async def test_the_same_call_makes_the_same_plan_and_another_call_another(stage: ToolHarness) -> None:
    context = stage.context(T1)
    first, again = await plan(context, "new", STEPS), await plan(context, "new", STEPS)
    assert first == again
    await stage.record("react.plan", context, first)
    assert (await plan(context, "new", STEPS)).status != first.status


async def test_replacing_activating_and_closing_say_what_is_current_then(stage: ToolHarness) -> None:
    await planned(stage, "new", STEPS)
    old = str(stage.views.plans.current)
    replaced = decode_status(await planned(stage, "replace", ("one",)))
    changed = msgspec.convert(replaced["changed"], list[ChangedPlan])
    assert [standing.state for standing in changed] == ["superseded", "open"]
    second = str(replaced["current"])
    third = str(decode_status(await planned(stage, "new", ("two",)))["current"])
    assert decode_status(await planned(stage, "activate", plan_id=second))["current"] == second
    assert decode_status(await planned(stage, "activate", plan_id=second))["changed"] == []
    assert decode_status(await planned(stage, "close", plan_id=third))["current"] == second
    assert decode_status(await planned(stage, "close"))["current"] is None
    for mode, plan_id, code in (("close", "", "plan_unknown"), ("activate", old, "plan_not_open")):
        with pytest.raises(CodedError) as refused:
            await plan(stage.context(T2), mode, (), plan_id)  # pyright: ignore[reportArgumentType]
        assert refused.value.code == code


async def test_a_step_is_recorded_and_read_with_all_its_characters(stage: ToolHarness) -> None:
    odd = " a\u2028b\u00a0c\t d\ne "
    outcome = await planned(stage, "new", (odd, "plain"))
    (block,) = outcome.blocks
    assert isinstance(block, PlanRecorded)
    read = await ReadTool().read(stage.context(T2), (f"ar:plan.latest:{block.snapshot.plan_id}",))
    (artifact,) = read.artifacts
    assert isinstance(artifact.text, str)
    assert msgspec.json.decode(artifact.text)["steps"] == [odd, "plain"]
