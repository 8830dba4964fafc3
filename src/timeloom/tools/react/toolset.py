"""Assembles the react tools for a registry."""

from typing import Final

from timeloom.core.blocks import ToolTraits
from timeloom.tools.define import FunctionTool, tool
from timeloom.tools.react.checkout import checkout
from timeloom.tools.react.compact import compact
from timeloom.tools.react.hide import HideTool
from timeloom.tools.react.patch import patch
from timeloom.tools.react.pin import PinTool
from timeloom.tools.react.plan import plan
from timeloom.tools.react.pull import pull
from timeloom.tools.react.read import ReadTool
from timeloom.tools.react.rg import rg
from timeloom.tools.react.write import write

FORGETTING_TEXT_VERSION: Final = 2
"""The first version of the system texts that explains `react.compact` and `react.pin`; earlier catalogues lack them."""


def react_tools(
    read_tool: ReadTool | None = None,
    hide_tool: HideTool | None = None,
    pin_tool: PinTool | None = None,
    *,
    text_version: int = 1,
) -> tuple[FunctionTool, ...]:
    """Return the react tools that the system texts of that version explain.

    `read_tool`, `hide_tool` and `pin_tool` carry the limits and settings of the runtime.
    """
    explained = text_version >= FORGETTING_TEXT_VERSION
    return (
        *_reading_tools(read_tool or ReadTool()),
        *_writing_tools(),
        *_memory_tools(hide_tool or HideTool()),
        *(_forgetting_tools(pin_tool or PinTool()) if explained else ()),
    )


def _reading_tools(read_tool: ReadTool) -> tuple[FunctionTool, ...]:
    return (
        tool(
            "react.read",
            effect="pure",
            examples=('{"paths":["fi:turn_1.files/report.md"]}',),
            traits=ToolTraits(result_text="file", reads_artifacts=True, numbers_lines=True, conversation_only=True),
        )(read_tool.read),
        tool(
            "react.rg",
            effect="pure",
            examples=('{"pattern":"TODO","roots":["files/"]}',),
            traits=ToolTraits(result_text="file", lists_matches=True, conversation_only=True),
        )(rg),
        tool(
            "react.pull",
            effect="idempotent",
            examples=('{"paths":["fi:turn_1.user.attachments/data.csv"]}',),
            traits=ToolTraits(result_text="file", reads_artifacts=True, brings_files=True, conversation_only=True),
        )(pull),
        tool(
            "react.checkout",
            effect="idempotent",
            examples=('{"paths":["fi:turn_1.files/src/"]}',),
            traits=ToolTraits(result_text="file", copies_files=True, conversation_only=True),
        )(checkout),
    )


def _writing_tools() -> tuple[FunctionTool, ...]:
    return (
        tool(
            "react.write",
            effect="idempotent",
            examples=('{"path":"files/report.md","content":"# Report"}',),
            exact_params=("content",),
            traits=ToolTraits(
                result_text="own",
                path_param="path",
                content_param="content",
                allows_answer=True,
                conversation_only=True,
            ),
        )(write),
        tool(
            "react.patch",
            effect="idempotent",
            examples=('{"path":"files/report.md","patch":"@@ -1 +1 @@\\n-# Report\\n+# The report"}',),
            exact_params=("patch",),
            traits=ToolTraits(
                result_text="file",
                copies_files=True,
                path_param="path",
                content_param="patch",
                conversation_only=True,
            ),
        )(patch),
    )


def _memory_tools(hide_tool: HideTool) -> tuple[FunctionTool, ...]:
    return (
        tool(
            "react.plan",
            effect="idempotent",
            examples=('{"mode":"new","steps":["collect","compare"]}',),
            traits=ToolTraits(result_text="own", allows_answer=True, manages_plans=True, conversation_only=True),
        )(plan),
        tool(
            "react.hide",
            effect="idempotent",
            aliases=("react.memory_hide",),
            renamed={"replacement_text": "replacement"},
            examples=('{"path":"tc:turn_1.18f62649fb3b.result","replacement":"fares of three ferries"}',),
            traits=ToolTraits(result_text="own", allows_answer=True, conversation_only=True),
        )(hide_tool.hide),
    )


def _forgetting_tools(pin_tool: PinTool) -> tuple[FunctionTool, ...]:
    return (
        tool(
            "react.compact",
            effect="idempotent",
            examples=('{"keep":4,"focus":"the fares that were compared"}',),
            traits=ToolTraits(result_text="own", conversation_only=True),
        )(compact),
        tool(
            "react.pin",
            effect="idempotent",
            examples=('{"path":"ar:turn_1.user.prompt"}',),
            traits=ToolTraits(result_text="own", allows_answer=True, conversation_only=True),
        )(pin_tool.pin),
    )
