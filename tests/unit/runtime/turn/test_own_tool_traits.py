"""Tools of users get the treatment that their traits ask for, and their calls record the traits."""

import asyncio
from pathlib import Path

import pytest

from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, blocks_of, calls
from timeloom.core.blocks import (
    AnyBlock,
    Notice,
    PlanAcknowledged,
    ResultContent,
    ToolCall,
    ToolCode,
    ToolTraits,
)
from timeloom.core.policy.next_step import TurnLimits
from timeloom.ports.tool import Artifact, Outcome, ToolContext
from timeloom.runtime.turn.loop import TurnRunner
from timeloom.tools import FunctionTool, tool

FANOUT = TurnLimits(fanout="safe_fanout")


def own_tool(traits: ToolTraits | None) -> FunctionTool:
    @tool("notes.do", effect="pure", aliases=("notes.act",), traits=traits)
    async def do(text: str = "") -> str:
        """Does."""
        return f"did {text}"

    return do


async def held(stage: TurnHarness, *tools: FunctionTool) -> tuple[TurnRunner, list[AnyBlock]]:
    """Run a turn with these tools to its end and return its blocks."""
    stage.extra = tools
    turns = await stage.open()
    assert await turns.run("go") == "completed"
    return turns, await blocks_of(turns)


def calls_of(blocks: list[AnyBlock]) -> list[ToolCall]:
    return [block for block in blocks if isinstance(block, ToolCall)]


def notice_codes(blocks: list[AnyBlock]) -> list[str]:
    return [block.code for block in blocks if isinstance(block, Notice)]


def test_a_call_records_the_traits_that_differ_from_the_built_in_ones(tmp_path: Path) -> None:
    traits = ToolTraits(result_text="own", content_param="text")
    stage = TurnHarness(tmp_path, calls("notes.do"), calls("notes.act"), calls("react.rg", name="a"), answers("ok"))
    turns, blocks = asyncio.run(held(stage, own_tool(traits)))
    assert [call.traits for call in calls_of(blocks)] == [traits, traits, None]
    assert turns.session.views.governance.origins.keys() == {"user", "file"}


def test_a_call_of_a_tool_with_default_traits_records_none(tmp_path: Path) -> None:
    stage = TurnHarness(tmp_path, calls("notes.do"), calls("notes.none"), answers("ok"))
    _, blocks = asyncio.run(held(stage, own_tool(ToolTraits())))
    assert [call.traits for call in calls_of(blocks)] == [None, None]


@pytest.mark.parametrize(
    ("traits", "codes"), [(ToolTraits(allows_answer=True), []), (None, ["protocol_violation.fanout_refused"])]
)
def test_an_answer_follows_a_call_whose_result_it_does_not_need(
    tmp_path: Path, traits: ToolTraits | None, codes: list[str]
) -> None:
    stage = TurnHarness(tmp_path, calls("notes.do") + answers("one"), answers("two"), limits=FANOUT)
    _, blocks = asyncio.run(held(stage, own_tool(traits)))
    assert notice_codes(blocks) == codes
    assert len(calls_of(blocks)) == (0 if codes else 1)


@pytest.mark.parametrize(("traits", "marks"), [(ToolTraits(manages_plans=True), 0), (None, 1)])
def test_marks_in_the_notes_of_a_call_that_manages_plans_do_not_count(
    tmp_path: Path, traits: ToolTraits | None, marks: int
) -> None:
    plan = calls("react.plan", mode="new", steps=["write", "answer"])
    stage = TurnHarness(tmp_path, plan, calls("notes.do", notes="✓ [1]"), answers("ok"))
    _, blocks = asyncio.run(held(stage, own_tool(traits)))
    assert len([block for block in blocks if isinstance(block, PlanAcknowledged)]) == marks
    assert bool(notice_codes(blocks)) != bool(marks)


def test_the_program_of_an_own_tool_is_recorded_and_programs_do_not_start_programs(tmp_path: Path) -> None:
    offered: list[str] = []

    @tool("sheets.run", effect="idempotent", traits=ToolTraits(runs_code=True))
    async def execute(context: ToolContext) -> str:
        """Runs a program."""
        assert context.nested is not None
        offered.extend(spec.tool_id for spec in context.nested.specs)
        return await context.nested.call("notes.do", "{}")

    traits = ToolTraits(result_text="own")
    stage = TurnHarness(tmp_path, calls("sheets.run") + "<channel:code>print(1)</channel:code>", answers("ok"))
    _, blocks = asyncio.run(held(stage, execute, own_tool(traits)))
    assert [block.text for block in blocks if isinstance(block, ToolCode)] == ["print(1)"]
    assert [(call.by is None, call.traits) for call in calls_of(blocks)] == [
        (True, ToolTraits(runs_code=True)),
        (False, traits),
    ]
    assert "notes.do" in offered
    assert "sheets.run" not in offered


def test_a_reply_is_read_with_the_same_traits_after_a_restart(tmp_path: Path) -> None:
    async def check() -> None:
        reply = calls("notes.do") + answers("one") + "<channel:code>1</channel:code>"
        stage = TurnHarness(tmp_path, reply, limits=FANOUT)
        stage.extra = (own_tool(ToolTraits(allows_answer=True, runs_code=True)),)
        turns = await stage.open()
        assert await turns.run("go") == "completed"
        again = await stage.reopen(turns.session)
        parsed = await again.model_caller.load_reply()
        assert parsed is not None
        assert (parsed.code, parsed.faults) == ("1", ())

    asyncio.run(check())


def test_a_file_that_an_own_tool_shows_again_is_no_new_version(tmp_path: Path) -> None:
    @tool("notes.open", effect="pure", traits=ToolTraits(result_text="file", reads_artifacts=True, numbers_lines=True))
    async def show(context: ToolContext) -> Outcome:
        """Shows."""
        path = f"fi:{context.turn_id}.files/a.md"
        return Outcome(artifacts=(Artifact(path=path, mime="text/markdown", text="one\ntwo\n", kind="file"),))

    write = calls("react.write", path="files/a.md", content="one\ntwo\n", kind="file")
    stage = TurnHarness(tmp_path, write, calls("notes.open"), answers("ok"))
    turns, blocks = asyncio.run(held(stage, show))
    path = next(block.artifact_path for block in blocks if isinstance(block, ResultContent))
    assert len(turns.session.views.artifacts.artifacts[path].versions) == 1
