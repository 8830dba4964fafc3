"""Finds step marks: the lines of the notes in which the model reports the status of each plan step."""

import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

import msgspec

from timeloom.core.plans.snapshot import StepStatus

MAX_MARK_NUMBER: Final = 99
"""Largest step number in a mark. A limit below the maximum number of steps makes some unreachable; a larger one takes
years and amounts (`✓ 2024. …`) for steps."""

MAX_MARK_CHARS: Final = 600
"""Longest stored line of a mark. A smaller limit cuts the text of the longest steps; a larger one lets notes fill the
timeline twice."""

MARKERS: Final = MappingProxyType[StepStatus, str](
    {
        "done": "✓",
        "failed": "✗",
        "in_progress": "…",
        "pending": "□",
    }
)
"""Sign of each status, as prompts show and request it."""

SPELLINGS: Final = MappingProxyType[str, StepStatus](
    {
        **dict.fromkeys(("✓", "✔", "✅", "☑"), "done"),
        **dict.fromkeys(("✗", "✘", "❌", "✖"), "failed"),
        **dict.fromkeys(("…", "..."), "in_progress"),
        **dict.fromkeys(("□", "☐"), "pending"),
    }
)
"""All spellings of the signs: models also write heavy, emoji and ballot forms, and the ASCII ellipsis.

`[x]` and `[ ]` are excluded, because ordinary Markdown uses them for task lists.
"""

# Atomic, not possessive: possessive groups match wrongly before Python 3.11.5.
_LEAD = r"[ \t]*+(?>(?:[-*+•][ \t]++)?)"
SIGN: Final = "|".join(re.escape(spelling) for spelling in SPELLINGS)
"""A pattern of all spellings of the signs."""

_NUMBER = r"(?:\[(?P<boxed>[1-9][0-9]?)\]|(?P<listed>[1-9][0-9]?)[.)](?!\S))"
# U+FE0E and U+FE0F select the text or emoji form of the preceding sign and have no meaning here.
_MARK = re.compile(rf"{_LEAD}(?P<sign>{SIGN})[\ufe0e\ufe0f]?+[ \t]*+{_NUMBER}")
_FENCE = re.compile(rf"{_LEAD}(?P<fence>`{{3,}}+(?!.*`)|~{{3,}}+)")


class StepMark(msgspec.Struct, frozen=True):
    """Status of one step according to one line; `line` is the line as written, cut if it is very long."""

    step: int
    status: StepStatus
    line: str


def marker(status: StepStatus) -> str:
    """Return the sign of a step's status."""
    return MARKERS[status]


def find_marks(notes: str) -> tuple[StepMark, ...]:
    """Return the marks in the notes, at most one per step: the last mark of a step counts.

    A mark is at the start of a line, after spaces and at most one bullet. Lines in fenced code are quotations and do
    not count; an unclosed fence extends to the end.
    """
    marks: dict[int, StepMark] = {}
    for line in _prose_lines(notes):
        found = _MARK.match(line)
        if found:
            step = int(found["boxed"] or found["listed"])
            # Removed first, so that the dict is ordered by the marks that count.
            marks.pop(step, None)
            marks[step] = StepMark(step, SPELLINGS[found["sign"]], line[:MAX_MARK_CHARS].strip())
    return tuple(marks.values())


def _prose_lines(notes: str) -> Iterator[str]:
    fence = ""
    for line in notes.split("\n"):
        if fence:
            if _closes_fence(line, fence):
                fence = ""
        elif opened := _FENCE.match(line):
            fence = opened["fence"]
        else:
            yield line


def _closes_fence(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and bare == fence[0] * len(bare)
