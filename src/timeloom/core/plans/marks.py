"""Step marks: the lines by which a model says in its notes how far each step of its plan is."""

import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

import msgspec

from timeloom.core.plans.snapshot import StepStatus

MAX_MARK_NUMBER: Final = 99
"""Largest step number that a mark may carry. Smaller than the most steps of a plan would make some of them
unreachable; larger takes years and amounts (`✓ 2024. …`) for steps."""

MAX_MARK_CHARS: Final = 600
"""Longest line kept of a mark. Smaller cuts off the text of the longest steps; larger lets notes fill the timeline
a second time."""

MARKERS: Final = MappingProxyType[StepStatus, str](
    {
        "done": "✓",
        "failed": "✗",
        "in_progress": "…",
        "pending": "□",
    }
)
"""The sign of each status, as prompts show it and ask for it."""

# Models write these for the signs above: the heavy, emoji and ballot forms, and the ellipsis of an ASCII keyboard.
# Nothing else stands for a sign: `[x]` and `[ ]` are the task lists of ordinary Markdown.
_SPELLINGS: Final = MappingProxyType[str, StepStatus](
    {
        **dict.fromkeys(("✓", "✔", "✅", "☑"), "done"),
        **dict.fromkeys(("✗", "✘", "❌", "✖"), "failed"),
        **dict.fromkeys(("…", "..."), "in_progress"),
        **dict.fromkeys(("□", "☐"), "pending"),
    }
)

# Atomic, not possessive: before 3.11.5 Python's possessive groups match what they must not.
_LEAD = r"[ \t]*+(?>(?:[-*+•][ \t]++)?)"
_SIGN = "|".join(re.escape(spelling) for spelling in _SPELLINGS)
_NUMBER = r"(?:\[(?P<boxed>[1-9][0-9]?)\]|(?P<listed>[1-9][0-9]?)[.)](?!\S))"
# U+FE0E and U+FE0F ask for the text or emoji form of the sign before them and say nothing themselves.
_MARK = re.compile(rf"{_LEAD}(?P<sign>{_SIGN})[\ufe0e\ufe0f]?+[ \t]*+{_NUMBER}")
_FENCE = re.compile(rf"{_LEAD}(?P<fence>`{{3,}}+(?!.*`)|~{{3,}}+)")


class Mark(msgspec.Struct, frozen=True):
    """What a line says of one step; `line` is that line as it was written, its end cut where it is very long."""

    step: int
    status: StepStatus
    line: str


def marker(status: StepStatus) -> str:
    """The sign that shows a step's status."""
    return MARKERS[status]


def find_marks(notes: str) -> tuple[Mark, ...]:
    """The marks in the notes, one for each step at most: of several for a step the last counts.

    A mark stands at the start of a line, behind spaces and at most one bullet. Lines in fenced code are quotations
    and mark nothing; a fence that is never closed runs to the end.
    """
    marks: dict[int, Mark] = {}
    for line in _prose_lines(notes):
        found = _MARK.match(line)
        if found:
            step = int(found["boxed"] or found["listed"])
            # Taken out first, so that the order is that of the marks that count.
            marks.pop(step, None)
            marks[step] = Mark(step, _SPELLINGS[found["sign"]], line[:MAX_MARK_CHARS].strip())
    return tuple(marks.values())


def _prose_lines(notes: str) -> Iterator[str]:
    fence = ""
    for line in notes.split("\n"):
        if fence:
            if _closes(line, fence):
                fence = ""
        elif opened := _FENCE.match(line):
            fence = opened["fence"]
        else:
            yield line


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and bare == fence[0] * len(bare)
