"""Parses the docstring of a tool into purpose, description and parameter texts.

The first line is the purpose, which the catalogue shows. A line `name: text` documents the parameter of that name, and
lines with deeper indentation continue it. The styles of Google (`name (type): text`), Sphinx (`:param name: text`) and
NumPy (`name : type`, with the text below) are understood as well. All other lines are the description.
"""

import inspect
import re
from collections.abc import Collection, Mapping

import msgspec

_NAME = r"([A-Za-z_][A-Za-z0-9_]*)"
_LINES = (
    re.compile(rf"( *){_NAME}(?: \([^()]*\))?: +(\S.*)"),
    re.compile(rf"( *):param (?:[^:]* )?{_NAME}: *(.*)"),
)
_NUMPY_LINE = re.compile(rf"( *){_NAME} : \S.*")
_HEADINGS = frozenset({"Args:", "Arguments:", "Parameters:"})
_NUMPY_HEADING = "Parameters"


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
    for line in _without_numpy_heading(rest.split("\n")):
        found = _match_parameter(line, names)
        if found:
            depth, text = len(found[1]), params.setdefault(found[2], [])
            text.append(found[3].strip() if found.re is not _NUMPY_LINE else "")
        elif text is not description and _indentation(line) > depth:
            text.append(line.strip())
        elif line.strip() not in _HEADINGS:
            text = description
            description.append(line.rstrip())
    joined = {name: " ".join(filter(None, lines)) for name, lines in params.items()}
    return ToolDocstring(purpose.strip(), "\n".join(description).strip(), joined)


def _match_parameter(line: str, names: Collection[str]) -> re.Match[str] | None:
    """Return the groups indentation, name and text of a line that documents one of these parameters."""
    for form in (*_LINES, _NUMPY_LINE):
        if (found := form.fullmatch(line)) and found[2] in names:
            return found
    return None


def _without_numpy_heading(lines: list[str]) -> list[str]:
    """Return the lines without a heading `Parameters` that is underlined."""
    for at, line in enumerate(lines[:-1]):
        if line.strip() == _NUMPY_HEADING and set(lines[at + 1].strip()) == {"-"}:
            return lines[:at] + lines[at + 2 :]
    return lines


def _indentation(line: str) -> int:
    """Return the indentation of the line; -1 for an empty line, so that it ends the parameter text above it."""
    return len(line) - len(line.lstrip()) if line.strip() else -1
