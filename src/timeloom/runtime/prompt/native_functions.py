"""The functions of native tool calling for a conversation, and the system text that goes with them."""

from collections.abc import Sequence

import msgspec

from timeloom.core.blocks.tool_traits import resolve_traits
from timeloom.core.render.catalogue import CatalogueTool
from timeloom.core.render.native_system import build_native_system_text
from timeloom.core.render.native_tools import (
    NativeTool,
    decode_native_tools,
    encode_native_tools,
    make_native_tools,
)
from timeloom.ports.tool import ToolSpec
from timeloom.runtime.prompt.instructions.load import load_native_instructions


class NativeFunctions(msgspec.Struct, frozen=True):
    """The functions that a request offers, their recorded text, and the tools from which they were made."""

    functions: tuple[NativeTool, ...] = ()
    text: str = ""
    specs: tuple[ToolSpec, ...] = ()


def build_native_functions(
    specs: Sequence[ToolSpec], pinned: str = "", *, several_actions: bool = False, instructions: str = ""
) -> tuple[str, NativeFunctions]:
    """Return the system text and the functions of conversations that have these tools.

    `pinned` is the text of the functions that a conversation has used before. It is sent unchanged, because another
    list would end the provider's cache. The system text names the tools that it lacks, and functions without a tool.
    """
    tools = [to_catalogue_tool(spec) for spec in specs]
    functions = decode_native_tools(pinned) or make_native_tools(tools, _code_tools(specs))
    listed, known = {one.tool_id for one in functions}, {spec.tool_id for spec in specs}
    text = build_native_system_text(
        load_native_instructions(),
        [tool for tool in tools if tool.tool_id not in listed],
        [one.name for one in functions if one.tool_id and one.tool_id not in known],
        several_actions=several_actions,
        bundle_text=instructions,
    )
    return text, NativeFunctions(functions, pinned or encode_native_tools(functions), tuple(specs))


def to_catalogue_tool(spec: ToolSpec) -> CatalogueTool:
    """Return the tool as the catalogue lists it."""
    return CatalogueTool(
        tool_id=spec.tool_id,
        purpose=spec.purpose,
        description=spec.description,
        params_schema=spec.params_schema,
        effect=spec.effect,
        examples=spec.examples,
    )


def _code_tools(specs: Sequence[ToolSpec]) -> frozenset[str]:
    return frozenset(spec.tool_id for spec in specs if resolve_traits(spec.tool_id, spec.traits).runs_code)
