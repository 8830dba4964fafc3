"""Parses the docstring of a tool into purpose, description and parameter texts.

The first line is the purpose, which the catalogue shows. A line `name: text` documents the parameter of that name, and
lines with deeper indentation continue it. All other lines are the description.
"""

import inspect
import re
from collections.abc import Collection, Mapping

import msgspec

_LINE = re.compile(r"( *)([A-Za-z_][A-Za-z0-9_]*): +(\S.*)")
_HEADINGS = frozenset({"Args:", "Arguments:", "Parameters:"})


class ToolDocstring(msgspec.Struct, frozen=True):
    """The parts of a tool's docstring."""

    purpose: str
    description: str
    params: Mapping[str, str]


def parse_docstring(docstring: str, names: Collection[str]) -> ToolDocstring:
    """Return the parts of a tool's docstring, given the names of the tool's parameters."""
    purpose, _, rest = inspect.cleandoc(docstring).partition("\n")
    params: dict[str, list[str]] = {}
    description: list[str] = []
    text, depth = description, -1
    for line in rest.split("\n"):
        found = _LINE.fullmatch(line)
        if found and found[2] in names:
            depth, text = len(found[1]), params.setdefault(found[2], [])
            text.append(found[3].strip())
        elif text is not description and _indentation(line) > depth:
            text.append(line.strip())
        elif line.strip() not in _HEADINGS:
            text = description
            description.append(line.rstrip())
    joined = {name: " ".join(lines) for name, lines in params.items()}
    return ToolDocstring(purpose.strip(), "\n".join(description).strip(), joined)


def _indentation(line: str) -> int:
    """Return the indentation of the line; -1 for an empty line, so that it ends the parameter text above it."""
    return len(line) - len(line.lstrip()) if line.strip() else -1
