"""Defines tools, registers them and implements the built-in ones.

Reading order:

- `define`: the `@tool` decorator, which makes a tool from a typed async function.
- `docstrings`, `schema`, `parameters`: the function's docstring, JSON Schema and strict parameter parsing.
- `binding`, `references`: replace `ref:` values and write paths in the parameters before a call.
- `outcome`, `errors`: convert returned values and exceptions to outcomes.
- `registry`: looks tools up by id and alias.
- `installed`: tools that installed packages offer.
- `workspace`, `artifacts`, `mime`, `charsets`: files of a conversation and their contents.
- `shown_names`: paths as the prompt of the running turn names them.
- `react`, `exec`: the built-in tools.
"""

from timeloom.core.blocks import ToolTraits
from timeloom.tools.binding import WritePath
from timeloom.tools.define import FunctionTool, tool
from timeloom.tools.registry import ToolRegistry, UnknownTool

__all__ = ["FunctionTool", "ToolRegistry", "ToolTraits", "UnknownTool", "WritePath", "tool"]
