"""Finds text that a reply only shows: quoted lines, inline code, fenced code, and prose about a decision."""

import re
from collections.abc import Sequence
from typing import Final

FENCE: Final = r"^[ \t]{0,4}(?:`{3,}|~{3,})[ \t]{0,4}"
FENCE_LINE: Final = re.compile(rf"{FENCE}([A-Za-z0-9_+-]*)(?:[ \t][^\n`]{{0,80}})?\r?$", re.MULTILINE)
"""A line that begins or ends a fenced block, with its language."""


def is_quoted(text: str, at: int) -> bool:
    """Whether the place lies in a quoted line, in backticks, in a thought, or directly after a quotation mark."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    if line.lstrip(" \t-*").startswith((">", "|")) or _ASIDE.match(line):
        return True
    return line.count("`") % 2 == 1 or line.rstrip()[-1:] in tuple("\"'“‘«")


def is_spoken_about(before: str, after: str) -> bool:
    """Whether the prose directly around a decision speaks about it, so that it may be a draft or an example."""
    return bool(_HEDGE.search(_last_line(before)) or _DENIAL.search(_first_line(after)))


def _last_line(text: str) -> str:
    lines = [line for line in text[-_MAX_PROSE:].splitlines() if line.strip() and not FENCE_LINE.match(line)]
    return lines[-1] if lines else ""


def _first_line(text: str) -> str:
    lines = [line for line in text[:_MAX_PROSE].splitlines() if line.strip() and not FENCE_LINE.match(line)]
    return lines[0] if lines else ""


class CodeSpans:
    """The fenced blocks of a text that are not JSON; places are asked for in ascending order."""

    def __init__(self, text: str, more_languages: Sequence[str] = ()) -> None:
        self._fences = FENCE_LINE.finditer(text)
        self._next = next(self._fences, None)
        self._language: str | None = None
        self._shown = (None, "", "json", "json5", "jsonc", *more_languages)

    def __contains__(self, at: int) -> bool:
        while self._next is not None and self._next.start() < at:
            self._language = self._next[1].lower() if self._language is None else None
            self._next = next(self._fences, None)
        return self._language not in self._shown


_MAX_PROSE: Final = 1_000
"""Most characters of prose before and after a decision that are read."""

_ASIDE: Final = re.compile(r"[\s*_#\[]{0,8}(?:thoughts?|thinking|reasoning|observation|tool result)\b", re.IGNORECASE)
_HEDGE: Final = re.compile(
    r"\b(?:could(?! not|n't)|would(?! like|n't)|might|maybe|perhaps|examples?|e\.g|instead of|drafts?|says|said|wrote"
    r"|quotes?|ignor(?:e|ing)|won't|will not|not (?:do|call|send|run|execute))\b",
    re.IGNORECASE,
)
_DENIAL: Final = re.compile(
    r"^\W{0,4}(?:no|not|but|instead|which)\b|^\s*\?|\b(?:will not|won't|did(?: not|n't)|would(?: not|n't)"
    r"|should(?: not|n't)|ignor(?:e|ing)|wrong|examples?)\b",
    re.IGNORECASE,
)
