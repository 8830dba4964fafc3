"""Reads the docstrings of fields from the source, because Python does not keep them."""

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise


def field_docs(kind: type[object]) -> dict[str, str]:
    """Return the docstring of each field that has one, also of inherited fields; empty without the source."""
    found: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        found |= _docs_in(cls.__module__).get(cls.__qualname__, {})
    return found


@cache
def _docs_in(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of the fields of all classes of that module."""
    try:
        source = inspect.getsource(sys.modules[module]) if module.startswith("timeloom.") else ""
    except (OSError, TypeError):
        # The package was installed without its source.
        return {}
    return {one.name: _docs_of(one) for one in ast.parse(source).body if isinstance(one, ast.ClassDef)}


def _docs_of(cls: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, after in pairwise(cls.body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found
