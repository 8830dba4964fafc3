"""The markers that begin a Markdown line of a block, as CommonMark defines them; each matches after the indentation."""

import re
from typing import Final

MAX_MARKER_INDENT: Final = 3
"""Maximum spaces before a marker; a line with more is plain text or indented code."""

FENCE: Final = re.compile(r"`{3,}+(?![^`]*+`)|~{3,}+")
HEADING: Final = re.compile(r"#{1,6}+(?=[ \t]|\Z)")
RULE: Final = re.compile(r"(?>(?:\*[ \t]*+){3,}|(?:_[ \t]*+){3,}|(?:-[ \t]*+){3,})\Z")
LIST_ITEM: Final = re.compile(r"(?:[*+\-]|([0-9]{1,9})[.)])(?=[ \t]|\Z)")
"""A bullet, or a number that group 1 holds."""


def closes_fence(text: str, marker: str) -> bool:
    """Whether a line with this text, without spaces around it, closes the fence that the marker opened."""
    return len(text) >= len(marker) and text == marker[0] * len(text)
