"""react.hide replaces recent blocks and refuses those before the cache point."""

from pathlib import Path

import pytest

from tests.harness.react_tools import T1, T2, ToolHarness, decode_status, open_tool_harness
from timeloom.core.blocks import Completion, Hidden, RangeSummary, UserPrompt
from timeloom.core.codes import CodedError
from timeloom.core.policy.cache.points import CacheSettings
from timeloom.core.view.context.visible import Stub
from timeloom.ports.tool import Outcome
from timeloom.tools.react.hide import HideTool
from timeloom.tools.react.read import ReadTool

pytestmark = pytest.mark.anyio
FILE = "fi:turn_1.files/a.md"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    stage = await open_tool_harness(tmp_path / "out")
    await stage.append(UserPrompt(text="a long prompt"))
    await stage.record_file(FILE, "a long report " * 100)
    return stage


OPEN = CacheSettings(min_rounds=99)
"""No pre-tail point yet."""


async def hidden(stage: ToolHarness, path: str, words: str = "the report", settings: CacheSettings = OPEN) -> Outcome:
    context = stage.context(T1)
    outcome = await HideTool(settings).hide(context, path, words)
    await stage.record("react.hide", context, outcome)
    return outcome


async def refusal(stage: ToolHarness, path: str, settings: CacheSettings = OPEN) -> str:
    with pytest.raises(CodedError) as refused:
        await HideTool(settings).hide(stage.context(T1), path, "x")
    return refused.value.code


async def test_what_is_hidden_is_replaced_by_the_words_and_read_again_by_its_path(stage: ToolHarness) -> None:
    (seq,) = stage.views.visible.at_path[FILE]
    outcome = await hidden(stage, FILE, "a report of\n 100 parts. ")
    assert outcome.blocks == (Hidden(target=FILE, replacement="a report of 100 parts"),)
    assert decode_status(outcome) == {"path": FILE, "blocks_hidden": 1, "replacement": "a report of 100 parts"}
    stand = stage.views.visible.shown[seq]
    assert isinstance(stand, Stub)
    assert stand.text == "a report of 100 parts"
    read = await ReadTool().read(stage.context(T1), (FILE,))
    assert read.artifacts[0].text == "a long report " * 100


async def test_what_lies_before_the_cache_point_stays(stage: ToolHarness) -> None:
    settings = CacheSettings(min_rounds=1, offset_rounds=1)
    last = await stage.record_file("fi:turn_1.files/last.md", "the last round")
    assert await refusal(stage, FILE, settings) == "hide_before_cache"
    assert await refusal(stage, "ar:turn_1.user.prompt", settings) == "hide_before_cache"
    assert (await hidden(stage, last, settings=settings)).error is None


async def test_a_path_with_one_block_before_the_point_and_one_after_it_stays(stage: ToolHarness) -> None:
    await stage.record_file(FILE, "the second version", T1)
    assert await refusal(stage, FILE, CacheSettings(min_rounds=1, offset_rounds=1)) == "hide_before_cache"
    assert decode_status(await hidden(stage, FILE))["blocks_hidden"] == 2


async def test_what_is_far_from_the_end_stays_unless_it_is_larger_than_the_editable_tail(stage: ToolHarness) -> None:
    large = await stage.record_file("fi:turn_1.files/large.md", "word " * 4_000)
    await stage.record_file("fi:turn_1.files/after.md", "after it " * 100)
    settings = CacheSettings(min_rounds=99, editable_tail_tokens=1_000)
    assert await refusal(stage, FILE, settings) == "hide_before_cache"
    assert (await hidden(stage, large, settings=settings)).error is None
    assert (await hidden(stage, FILE, settings=settings)).error is None


async def test_hiding_again_changes_the_words_and_a_physical_path_means_the_file(stage: ToolHarness) -> None:
    await hidden(stage, FILE)
    await hidden(stage, "turn_1/files/a.md", "other words")
    stands = [stand.text for stand in stage.views.visible.shown.values() if stand]
    assert stands == ["other words"]


async def test_a_bare_path_means_the_newest_of_its_family(stage: ToolHarness) -> None:
    first, second = await stage.append(Completion(text="one"), Completion(text="two", n=2))
    await hidden(stage, "ar:turn_1.assistant.completion")
    assert stage.views.visible.shown[first] is None
    assert stage.views.visible.shown[second] is not None


@pytest.mark.parametrize(
    ("path", "words", "code"),
    [
        ("ar:turn_9.user.prompt", "x", "hide_not_visible"),
        ("ar:turn_1.react.turn.index", "x", "hide_not_visible"),
        ("nonsense", "x", "hide_not_visible"),
        ("turn_1", "x", "path_malformed"),
        (FILE, " . ", "tool_params_invalid"),
        (FILE, "x" * 501, "tool_params_invalid"),
    ],
)
async def test_what_cannot_be_hidden_is_refused(stage: ToolHarness, path: str, words: str, code: str) -> None:
    with pytest.raises(CodedError) as refused:
        await HideTool().hide(stage.context(T2), path, words)
    assert refused.value.code == code


async def test_what_a_summary_stands_for_is_not_in_sight_and_the_summary_is(stage: ToolHarness) -> None:
    summary = "su:turn_1.conv.range.summary"
    await stage.append(RangeSummary(covered_turn_ids=(T1,), text="all", first_seq=2, last_seq=stage.views.tail))
    assert await refusal(stage, FILE) == await refusal(stage, "ar:turn_1.user.prompt") == "hide_not_visible"
    assert decode_status(await hidden(stage, summary))["blocks_hidden"] == 1
    assert await refusal(stage, summary) == "hide_not_visible"
