"""Finds the line of each key in a TOML document."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, cast

KeyPath = tuple[str, ...]

MAX_DOTS: Final = 32
"""Maximum number of dots in a key. The standard parser needs quadratic time: 20 seconds for 32,000 dots."""

# An unclosed string matches up to the end of its line or text, so that no character is scanned twice.
_TOKEN: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"""|\Z)'
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:[^"\\\n]|\\.)*"?'
    r"|'[^'\n]*'?"
    r"|\#[^\n]*"
    r"|[\[\]{}=.,\n]",
    re.DOTALL,
)
_DEPTH: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
_BARE: Final = re.compile(r"[ \t]*([A-Za-z0-9_-]*)[ \t]*")


class TooManyDotsError(ValueError):
    """A key has more dots than any setting; `line` is its line."""

    def __init__(self, line: int) -> None:
        super().__init__(f"a key with more than {MAX_DOTS} dots")
        self.line = line


class Statement(NamedTuple):
    """A table header, or the key left of an equals sign, and its first line."""

    line: int
    head: str
    is_header: bool


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a document in order, up to its first error, in linear time.

    A blank line or a comment counts as a header.
    """
    line = first_line = 1
    start = depth = dots = 0
    equals: int | None = None
    for token in _TOKEN.finditer(text + "\n"):
        mark = token[0]
        dots = dots + 1 if mark == "." else 0 if len(mark) == 1 else dots
        if dots > MAX_DOTS:
            raise TooManyDotsError(line)
        line += mark.count("\n")
        depth += _DEPTH.get(mark, 0)
        if depth:
            continue
        if mark == "=" and equals is None:
            equals = token.start()
        elif mark == "\n":
            yield Statement(first_line, text[start : token.start() if equals is None else equals], equals is None)
            start, first_line, equals = token.end(), line, None


def key_lines(text: str) -> Mapping[KeyPath, int]:
    """Return the first line of every key and table, or of a key inside it; the document must be valid."""
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for statement in statements(text):
        if statement.is_header:
            table = path = _parse_key(statement.head) or table
        else:
            path = (*table, *_parse_key(statement.head, "=0"))
        for end in range(1, len(path) + 1):
            lines.setdefault(path[:end], statement.line)
    return lines


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Return the line of a key; for a key in an inline table, the line of the table."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), 1)


def _parse_key(head: str, value: str = "") -> KeyPath:
    """Return the parts of the key of a statement; empty if there is no key."""
    if bare := _BARE.fullmatch(head):
        return (bare[1],) if bare[1] else ()
    parts: list[str] = []
    nested: object = tomllib.loads(head + value)
    while isinstance(nested, dict) and nested:
        name, nested = next(iter(cast("dict[str, object]", nested).items()))
        parts.append(name)
    return tuple(parts)
