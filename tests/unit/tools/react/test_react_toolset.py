"""The react tools as a registry has them: parameters as JSON, and blocks in the order of the timeline."""

import json
from pathlib import Path

import msgspec
import pytest

from tests.harness.react_tools import T2, ToolHarness, open_tool_harness
from timeloom.core.blocks import Hidden, Notice, ResultContent, ResultDigest, ResultStatus, ToolCall, UserPrompt
from timeloom.core.render.v1.entries.previews import preview_text
from timeloom.ports.tool import Outcome
from timeloom.runtime.turn.run_tool import RunSettings, run_call
from timeloom.tools.react.rg import RgStatus
from timeloom.tools.react.toolset import react_tools
from timeloom.tools.registry import ToolRegistry

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def stage(tmp_path: Path) -> ToolHarness:
    stage = await open_tool_harness(tmp_path / "out")
    await stage.append(UserPrompt(text="a report, please"))
    return stage


async def called(stage: ToolHarness, tool_id: str, **params: object) -> Outcome:
    tool = ToolRegistry(react_tools()).resolve(tool_id)
    return await tool.call(json.dumps(params), stage.context(T2))


async def run(stage: ToolHarness, tool_id: str, **params: object) -> list[str]:
    """Run the call like the runtime, append its blocks, and return their classes."""
    context = stage.context(T2)
    call = ToolCall(tool_id=tool_id, tool_call_id=context.tool_call_id, params=json.dumps(params))
    await stage.append(call, turn=T2)
    blocks = await run_call(ToolRegistry(react_tools()).resolve(tool_id), call, context, RunSettings(show=preview_text))
    await stage.append(*blocks, turn=T2)
    return [type(block).__name__ for block in blocks]


async def test_every_tool_says_what_each_parameter_is() -> None:
    for tool in react_tools():
        properties = json.loads(tool.spec.params_schema)["properties"]
        assert [name for name, schema in properties.items() if "description" not in schema] == []
        assert all(json.loads(example).keys() <= properties.keys() for example in tool.spec.examples)


async def test_a_file_is_written_patched_found_read_and_hidden(stage: ToolHarness) -> None:
    long = "".join(f"line {n}\n" for n in range(1, 4001))
    assert await run(stage, "react.write", path="turn_1/files/a.md", content=long) == [
        Notice.__name__,
        ResultDigest.__name__,
        ResultContent.__name__,
    ]
    diff = "@@ -3,2 +3,2 @@\n line 3\n-line 4\n+line four\n"
    assert await run(stage, "react.patch", path="files/a.md", patch=diff) == [
        ResultDigest.__name__,
        *[ResultContent.__name__] * 2,
        ResultStatus.__name__,
    ]
    found = await called(stage, "react.rg", pattern="four$")
    items = msgspec.to_builtins(msgspec.json.decode(found.status or "", type=RgStatus).files[0].read_items)
    assert await run(stage, "react.read", items=items) == [
        ResultStatus.__name__,
        ResultDigest.__name__,
        ResultContent.__name__,
    ]
    (shown,) = [
        entry.block.shown for entry in await stage.entries([stage.views.tail]) if isinstance(entry.block, ResultContent)
    ]
    assert shown
    assert (
        shown.text
        == "[READ] [1-7]/4000\n1| line 1\n2| line 2\n3| line 3\n4| line four\n5| line 5\n6| line 6\n7| line 7\n"
    )
    assert await run(stage, "react.hide", path="fi:turn_2.files/a.md", replacement="the lines") == [
        ResultStatus.__name__,
        Hidden.__name__,
    ]
    await run(stage, "react.read", paths=["fi:turn_2.files/a.md"])
    assert stage.views.artifacts.artifacts["fi:turn_2.files/a.md"].is_edited


async def test_hiding_goes_by_its_older_name_too(stage: ToolHarness) -> None:
    outcome = await called(stage, "react.memory_hide", path="ar:turn_1.user.prompt", replacement_text="the task")
    assert outcome.blocks == (Hidden(target="ar:turn_1.user.prompt", replacement="the task"),)


@pytest.mark.parametrize(
    ("tool_id", "params", "code"),
    [
        ("react.read", {"paths": ["x"], "limit": 3}, "tool_params_invalid"),
        ("react.read", {"items": [{"line_start": 3}]}, "tool_params_invalid"),
        ("react.write", {"path": "a.md"}, "tool_params_invalid"),
        ("react.write", {"path": "a.md", "content": "x", "channel": "chat"}, "tool_params_invalid"),
        ("react.patch", {"path": "files/none.md", "patch": "@@\n-x\n+y\n"}, "patch_no_match"),
        ("react.plan", {"mode": "close"}, "plan_unknown"),
        ("react.hide", {"path": "ar:turn_7.user.prompt", "replacement": "x"}, "hide_not_visible"),
    ],
)
async def test_a_refusal_is_the_outcome_of_the_call(
    stage: ToolHarness, tool_id: str, params: dict[str, object], code: str
) -> None:
    outcome = await called(stage, tool_id, **params)
    assert outcome.error
    assert outcome.error.code == code
    assert str(stage.out_dir) not in outcome.error.message
