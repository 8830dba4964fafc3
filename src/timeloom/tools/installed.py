"""Lists and loads the tools that installed packages offer in the entry-point group `timeloom.tools`.

An entry point names a tool or a list of tools. A package's code runs only if its entry point is named.
"""

from collections.abc import Iterable
from typing import Final, cast

from timeloom.core.codes import CodedError
from timeloom.platform.entry_points import entry_point_names, find_entry_point
from timeloom.ports.tool import Tool, ToolSpec

ENTRY_POINTS: Final = "timeloom.tools"


def list_installed_tools() -> tuple[str, ...]:
    """Return the names of the entry points, sorted; loads nothing."""
    return entry_point_names(ENTRY_POINTS)


def load_installed_tools(names: Iterable[str]) -> tuple[Tool, ...]:
    """Load the tools of these entry points, in this order; raises `CodedError` for others."""
    return tuple(tool for name in names for tool in _load(name))


def _load(name: str) -> tuple[Tool, ...]:
    try:
        found = find_entry_point(ENTRY_POINTS, name)
    except ValueError as error:
        raise CodedError("tool_malformed", str(error)) from error
    if found is None:
        known = ", ".join(list_installed_tools()) or "none"
        raise CodedError("tool_malformed", f"no installed package offers the tools {name[:80]!r}; offered are: {known}")
    return to_tools(found.load(), f"{found.value!r} of {ENTRY_POINTS}")


def to_tools(loaded: object, name: str) -> tuple[Tool, ...]:
    """Return the value as tools, if it is a tool or a list of tools; `name` names it in the error otherwise."""
    tools = tuple(cast("Iterable[object]", loaded)) if isinstance(loaded, list | tuple) else (loaded,)
    for one in tools:
        if not isinstance(getattr(one, "spec", None), ToolSpec):
            raise CodedError("tool_malformed", f"{name} is no tool and no list of tools; decorate functions with @tool")
    return cast("tuple[Tool, ...]", tools)
