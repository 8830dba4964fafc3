"""The program of a call is recorded where its channel stands: before the call in edition 1, after it in edition 2."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.harness.replies import answers, calls
from tests.harness.turn import TurnHarness, blocks_of
from timeloom.core.blocks import AnyBlock, ToolCall, ToolCode, ToolTraits
from timeloom.core.payload import Text
from timeloom.ports.tool import ToolContext
from timeloom.runtime.rerun.trajectory import extract_trajectory
from timeloom.tools.define import tool


@tool("sheets.run", effect="idempotent", traits=ToolTraits(runs_code=True))
async def execute(context: ToolContext) -> str:
    """Runs a program."""
    known = context.timeline.views.calls.get(context.turn_id, context.tool_call_id)
    assert known is not None
    (entry,) = await context.timeline.entries([known.code_seq or 0])
    assert isinstance(entry.block, ToolCode)
    return f"ran {entry.block.text}"


async def load_text(text: Text) -> str:
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(("edition", "order"), [(1, [ToolCode, ToolCall]), (2, [ToolCall, ToolCode])])
def test_code_is_recorded_where_the_edition_has_its_channel(
    tmp_path: Path, edition: int, order: list[type[AnyBlock]]
) -> None:
    stage = TurnHarness(tmp_path, calls("sheets.run") + "<channel:code>print(1)</channel:code>", answers("ok"))
    stage.setting = msgspec.structs.replace(stage.setting, edition=edition)

    async def check() -> None:
        stage.extra = (execute,)
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        recorded = await blocks_of(turns)
        assert [type(block) for block in recorded if isinstance(block, ToolCall | ToolCode)] == order
        entries = await turns.session.entries(range(1, turns.session.views.tail + 1))
        (trace,) = await extract_trajectory(entries, load_text)
        assert [call.code for one in trace.rounds for call in one.calls] == ["print(1)"]

    asyncio.run(check())
