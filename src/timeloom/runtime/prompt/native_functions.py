"""The functions of native tool calling for a conversation, and the system text of edition 1 that goes with them."""

from collections.abc import Sequence

import msgspec

from timeloom.core.render.catalogue import CatalogueTool
from timeloom.core.render.native_system import build_native_system_text
from timeloom.core.render.native_tools import (
    NativeTool,
    decode_native_tools,
    encode_native_tools,
    make_native_tools,
)
from timeloom.runtime.prompt.instructions.load import load_native_instructions


class NativeFunctions(msgspec.Struct, frozen=True):
    """The functions that a request offers, and their recorded text."""

    functions: tuple[NativeTool, ...] = ()
    text: str = ""

    @property
    def tool_ids(self) -> frozenset[str]:
        """The tools that have a function of their own."""
        return frozenset(one.tool_id for one in self.functions if one.tool_id)


def make_native_functions(tools: Sequence[CatalogueTool], pinned: str = "") -> NativeFunctions:
    """Return the functions of conversations that have these tools.

    `pinned` is the text of the functions that a conversation has used before. It is sent unchanged, because another
    list would end the provider's cache.
    """
    code_tools = frozenset(tool.tool_id for tool in tools if tool.runs_code)
    functions = decode_native_tools(pinned) or make_native_tools(tools, code_tools)
    return NativeFunctions(functions, pinned or encode_native_tools(functions))


def native_first_text(
    tools: Sequence[CatalogueTool], native: NativeFunctions, *, several_actions: bool = False, instructions: str = ""
) -> str:
    """Return the system text of edition 1; it names the tools without a function, and the functions without a tool."""
    known = {tool.tool_id for tool in tools}
    return build_native_system_text(
        load_native_instructions(),
        [tool for tool in tools if tool.tool_id not in native.tool_ids],
        [one.name for one in native.functions if one.tool_id and one.tool_id not in known],
        several_actions=several_actions,
        bundle_text=instructions,
    )
