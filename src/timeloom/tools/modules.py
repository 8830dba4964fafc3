"""Loads tools that a command line names: `module:NAME` of a Python module, or the name of an installed entry point."""

import traceback
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from timeloom.core.codes import CodedError
from timeloom.ports.tool import Tool
from timeloom.tools.installed import load_installed_tools, to_tools


def load_named_tools(names: Iterable[str]) -> tuple[Tool, ...]:
    """Load the tools of these names, in this order; raises `CodedError` with the file and line of a fault."""
    return tuple(tool for name in names for tool in (_load(name) if ":" in name else load_installed_tools([name])))


def _load(name: str) -> tuple[Tool, ...]:
    module_name, _, attribute = name.partition(":")
    if not attribute.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise CodedError(
            "tool_malformed", f"expected MODULE:NAME, such as my_tools:find or my_tools:TOOLS, got {name[:80]!r}"
        )
    try:
        module = import_module(module_name)
    except Exception as error:
        raise CodedError("tool_malformed", f"{module_name} cannot be imported: {_describe(error)}") from error
    if not hasattr(module, attribute):
        raise CodedError("tool_malformed", f"the module {module_name} has no {attribute}")
    return to_tools(getattr(module, attribute), name)


def _describe(error: Exception) -> str:
    """Return the error with the file and line where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error}"
    return text if "importlib" in last.filename else f"{text} ({Path(last.filename).name}, line {last.lineno})"
