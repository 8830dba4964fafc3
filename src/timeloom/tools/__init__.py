"""Tools: what an agent can call, how a tool is made, and where tools are found."""

from timeloom.tools.binding import WritePath
from timeloom.tools.define import FunctionTool, tool
from timeloom.tools.registry import ToolRegistry, UnknownTool

__all__ = ["FunctionTool", "ToolRegistry", "UnknownTool", "WritePath", "tool"]
