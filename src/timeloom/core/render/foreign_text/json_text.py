"""JSON in a line of the prompt: compact, without a line break of any kind, its tags and citations made harmless."""

import re
from typing import Final

import msgspec

from timeloom.core.render.foreign_text.fence import escape

# The encoder escapes those below U+0020 itself.
_BREAK: Final = re.compile("[\x7f\x85\u2028\u2029]")


def json_line(value: object) -> str:
    """The value as one line of JSON."""
    return harmless(msgspec.json.encode(value).decode())


def harmless(json: str) -> str:
    """The text of compact JSON with every break in it written as an escape, and fit to stand in a line of our own."""
    return escape(_BREAK.sub(lambda found: f"\\u{ord(found[0]):04x}", json))
