"""Tests for turns in which the model repeats a call without progress."""

from pathlib import Path

from tests.harness.replies import answers
from tests.harness.turn import TurnHarness, blocks_of, blocks_of_type, calls, run
from timeloom.core.blocks import Notice, ToolCall, ToolTraits, TurnEnded
from timeloom.ports.tool import ToolContext
from timeloom.tools.define import tool


def test_the_third_identical_result_is_followed_by_a_notice_and_the_fifth_call_is_not_run(tmp_path: Path) -> None:
    async def check() -> None:
        harness = TurnHarness(tmp_path, *[calls("t.look")] * 6)
        turns = await harness.open()
        assert await turns.run("go") == "no_progress"
        assert len(harness.effects) == 4
        blocks = await blocks_of(turns)
        (notice,) = blocks_of_type(blocks, Notice)
        assert isinstance(notice, Notice)
        assert notice.code == "repeated_call"
        ids = [block.tool_call_id for block in blocks if isinstance(block, ToolCall)]
        assert notice.tool_call_id == ids[2]
        (end,) = blocks_of_type(blocks, TurnEnded)
        assert isinstance(end, TurnEnded)
        assert end.text == "the model called t.look 4 times with the same result"

    run(check)


def test_a_restarted_process_counts_on(tmp_path: Path) -> None:
    async def check() -> None:
        harness = TurnHarness(tmp_path, *[calls("t.look")] * 4, calls("t.send"), *[calls("t.look")] * 2)
        turns = await harness.open()
        assert await turns.run("go") == "waiting"
        turns = await harness.reopen(turns.session)
        (call_id,) = [one.call_id for one in [turns.session.views.progress.open_call] if one]
        await turns.inbox.decide(call_id, approved=False, by="ann", text="")
        assert await turns.resume() == "no_progress"
        assert len(harness.effects) == 4

    run(check)


def test_other_parameters_results_and_turns_are_no_repetition(tmp_path: Path) -> None:
    async def count(context: ToolContext) -> str:
        """Counts."""
        context.emit("timeline_text", "")
        seen.append(1)
        return str(len(seen))

    seen: list[int] = []

    async def check() -> None:
        sizes = [calls("t.look", size=size) for size in range(5)]
        counts = [calls("t.count")] * 5
        harness = TurnHarness(tmp_path, *sizes, *counts, answers("one"), *[calls("t.look", size=1)] * 3, answers("two"))
        harness.extra = (tool("t.count", effect="pure")(count),)
        turns = await harness.open()
        assert await turns.run("go") == "completed"
        assert await turns.run("go") == "completed"

    run(check)


def test_a_tool_that_is_meant_to_be_polled_is_exempt(tmp_path: Path) -> None:
    async def status() -> str:
        """Status."""
        return "running"

    async def check() -> None:
        harness = TurnHarness(tmp_path, *[calls("t.status")] * 8, answers("still running"))
        harness.extra = (tool("t.status", effect="pure", traits=ToolTraits(polled=True))(status),)
        turns = await harness.open()
        assert await turns.run("go") == "completed"
        assert not blocks_of_type(await blocks_of(turns), Notice)

    run(check)
