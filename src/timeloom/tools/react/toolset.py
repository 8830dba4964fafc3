"""Assembles the react tools for a registry."""

from typing import Final

from timeloom.core.blocks import ToolTraits
from timeloom.tools.define import FunctionTool, tool
from timeloom.tools.first_edition import FIRST_EDITION
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
"""The first edition of the system texts that explains `react.compact` and `react.pin`; earlier catalogues lack them."""


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


def make_read_tool(read_tool: ReadTool) -> FunctionTool:
    """Return `react.read` with these limits and this source of content."""
    return tool(
        "react.read",
        first_edition=FIRST_EDITION["react.read"],
        effect="pure",
        examples=('{"paths":["ar:t1.user.prompt","fi:t1/report.md"]}',),
        traits=ToolTraits(result_text="file", reads_artifacts=True, numbers_lines=True, conversation_only=True),
    )(read_tool.read)


def _reading_tools(read_tool: ReadTool) -> tuple[FunctionTool, ...]:
    return (
        make_read_tool(read_tool),
        tool(
            "react.rg",
            first_edition=FIRST_EDITION["react.rg"],
            effect="pure",
            traits=ToolTraits(result_text="file", lists_matches=True, conversation_only=True),
        )(rg),
        tool(
            "react.pull",
            first_edition=FIRST_EDITION["react.pull"],
            effect="idempotent",
            traits=ToolTraits(result_text="file", reads_artifacts=True, brings_files=True, conversation_only=True),
        )(pull),
        tool(
            "react.checkout",
            first_edition=FIRST_EDITION["react.checkout"],
            effect="idempotent",
            traits=ToolTraits(result_text="file", copies_files=True, conversation_only=True),
        )(checkout),
    )


def _writing_tools() -> tuple[FunctionTool, ...]:
    return (
        tool(
            "react.write",
            first_edition=FIRST_EDITION["react.write"],
            effect="idempotent",
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
            first_edition=FIRST_EDITION["react.patch"],
            effect="idempotent",
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
            first_edition=FIRST_EDITION["react.plan"],
            effect="idempotent",
            traits=ToolTraits(result_text="own", allows_answer=True, manages_plans=True, conversation_only=True),
        )(plan),
        tool(
            "react.hide",
            first_edition=FIRST_EDITION["react.hide"],
            effect="idempotent",
            aliases=("react.memory_hide",),
            renamed={"replacement_text": "replacement"},
            traits=ToolTraits(result_text="own", allows_answer=True, conversation_only=True),
        )(hide_tool.hide),
    )


def _forgetting_tools(pin_tool: PinTool) -> tuple[FunctionTool, ...]:
    return (
        tool(
            "react.compact",
            edition=FORGETTING_TEXT_VERSION,
            effect="idempotent",
            traits=ToolTraits(result_text="own", conversation_only=True),
        )(compact),
        tool(
            "react.pin",
            edition=FORGETTING_TEXT_VERSION,
            effect="idempotent",
            traits=ToolTraits(result_text="own", allows_answer=True, conversation_only=True),
        )(pin_tool.pin),
    )
