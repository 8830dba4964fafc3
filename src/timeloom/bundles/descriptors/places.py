"""Finds the file and the line of descriptors and their entries, for errors."""

import ast
import inspect
from pathlib import Path
from types import ModuleType
from typing import Final

from timeloom.core.codes import CodedError

_OWN: Final = str(Path(__file__).parents[2])
_UNKNOWN: Final = "an unknown place"


def malformed(place: str, problem: str) -> CodedError:
    """Return the error of a descriptor with a wrong form at that place."""
    return CodedError("descriptor_malformed", f"{place}: {problem}")


def caller_place() -> str:
    """Return the file and the line of the code outside timeloom that runs now."""
    frame = inspect.currentframe()
    while frame:
        name = frame.f_code.co_filename
        if not name.startswith(("<", f"{_OWN}/")):
            return f"{Path(name).name}, line {frame.f_lineno}"
        frame = frame.f_back
    return _UNKNOWN


def module_file(module: ModuleType) -> str:
    """Return the name of the module's file, or of the module."""
    return Path(module.__file__).name if module.__file__ else module.__name__


def place_of_constant(module: ModuleType, name: str, index: int | None = None) -> str:
    """Return the file and the line of a constant of the module, or of one item of its list."""
    node = _find_value(module, name)
    if isinstance(node, ast.List | ast.Tuple) and index is not None and index < len(node.elts):
        node = node.elts[index]
    return f"{module_file(module)}, line {node.lineno}" if node else f"{module_file(module)}, {name}"


def _find_value(module: ModuleType, name: str) -> ast.expr | None:
    """Return the expression that the module assigns to the name; None if its source cannot be read."""
    try:
        tree = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
    except (OSError, ValueError, SyntaxError):
        return None
    found: ast.expr | None = None
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(value, ast.expr) and any(isinstance(one, ast.Name) and one.id == name for one in targets):
            found = value
    return found
