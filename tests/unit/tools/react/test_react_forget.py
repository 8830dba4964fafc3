"""react.compact and react.pin: prepared for system texts v2, and missing from today's catalogue."""

from pathlib import Path

import pytest

from tests.harness.context import (
    LOOK_WORDS,
    ContextHarness,
    assert_replays,
    prompt_text,
    run_turns,
    summaries,
    turn_replies,
)
from tests.harness.react_tools import T1, ToolHarness, decode_status, open_tool_harness
from tests.harness.replies import answers
from tests.harness.turn import blocks_of, calls
from timeloom.core.blocks import CompactionEnded, CompactionRequested, Notice, Pinned, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.ids import MessageId
from timeloom.core.render.v1.summary import FOCUS_CHARS
from timeloom.tools.react.compact import compact
from timeloom.tools.react.pin import PinTool
from timeloom.tools.react.toolset import react_tools

pytestmark = pytest.mark.anyio
FILE = "fi:turn_1.files/a.md"
NEW = ("react.compact", "react.pin")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    stage = await open_tool_harness(tmp_path / "out")
    await stage.append(UserPrompt(text="a long prompt"))
    await stage.record_file(FILE, "a long report " * 100)
    return stage


def test_the_tools_join_the_catalogue_with_the_second_version_of_the_texts() -> None:
    today = [tool.spec.tool_id for tool in react_tools()]
    assert not set(NEW) & set(today)
    assert [tool.spec.tool_id for tool in react_tools(text_version=2)] == [*today, *NEW]


async def test_a_compaction_is_requested_with_the_id_of_its_call(stage: ToolHarness) -> None:
    context = stage.context(T1)
    outcome = await compact(context, keep=3, focus="the fares")
    request = CompactionRequested(message_id=MessageId(context.tool_call_id), text="the fares", keep=3, author="react")
    assert outcome.blocks == (request,)
    assert decode_status(outcome) == {"carried_out": "before the next round", "keep": 3, "focus": "the fares"}
    for keep, focus in ((-1, ""), (0, "x" * (FOCUS_CHARS + 1))):
        with pytest.raises(CodedError) as refused:
            await compact(context, keep, focus)
        assert refused.value.code == "compaction_malformed"


async def test_a_block_is_pinned_by_its_path_and_unpinned(stage: ToolHarness) -> None:
    context = stage.context(T1)
    outcome = await PinTool().pin(context, "files/a.md")
    (block,) = outcome.blocks
    assert isinstance(block, Pinned)
    assert (block.target, block.pinned, block.author) == (FILE, True, "react")
    assert decode_status(outcome) == {"path": FILE, "pinned": True, "pinned_tokens": block.tokens}
    await stage.record("react.pin", context, outcome)
    assert list(stage.views.visible.pins) == [FILE]
    outcome = await PinTool().pin(stage.context(T1), FILE, pinned=False)
    assert decode_status(outcome) == {"path": FILE, "pinned": False, "pinned_tokens": 0}


@pytest.mark.parametrize(
    ("path", "window", "pinned", "code"),
    [
        ("fi:turn_1.files/none.md", 200_000, True, "pin_not_visible"),
        (FILE, 1_000, True, "pins_full"),
        (FILE, 200_000, False, "pin_unknown"),
    ],
)
async def test_a_pin_that_cannot_be_is_refused(
    stage: ToolHarness, path: str, window: int, pinned: bool, code: str
) -> None:
    with pytest.raises(CodedError) as refused:
        await PinTool(window).pin(stage.context(T1), path, pinned)
    assert refused.value.code == code


@pytest.mark.parametrize(("edition", "head"), [(1, "[USER MESSAGE]"), (2, "[USER]\nask 1\n")])
async def test_the_model_compacts_between_two_rounds_and_keeps_what_it_pinned(
    tmp_path: Path, edition: int, head: str
) -> None:
    steps = (calls("react.pin", path="ar:turn_9.user.prompt"), calls("react.compact", keep=1), answers("done"))
    harness = ContextHarness(tmp_path, *turn_replies(LOOK_WORDS) * 3, *steps)
    harness.edition = edition
    harness.extra = tuple(tool for tool in react_tools(text_version=2) if tool.spec.tool_id in NEW)
    turns = await harness.open()
    await run_turns(turns, 3)
    (first, *_) = turns.session.views.turns.turns
    await turns.context_fitter.pins.pin(f"ar:{first}.user.prompt")
    assert await turns.run("now forget") == "completed"
    blocks = await blocks_of(turns)
    assert [one.code for one in blocks if isinstance(one, Notice)] == ["pin_not_visible"]
    (ended,) = [one for one in blocks if isinstance(one, CompactionEnded)]
    assert (ended.outcome, len(await summaries(turns))) == ("completed", 1)
    text = await prompt_text(turns)
    assert f"[PINNED] kept on request\n{head}" in text
    assert "ask 2" not in text.partition("## Covered")[0]
    await assert_replays(harness, turns)
