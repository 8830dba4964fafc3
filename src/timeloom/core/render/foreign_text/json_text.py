"""Writes JSON on one line of the prompt: compact, without line breaks, with tags and citations escaped."""

import re
from typing import Final

import msgspec

from timeloom.core.render.foreign_text.fence import escape

# The encoder escapes control characters below U+0020.
_BREAK: Final = re.compile("[\x7f\x85\u2028\u2029]")


def json_line(value: object) -> str:
    """Return the value as one line of JSON."""
    return escape_json(msgspec.json.encode(value).decode())


def escape_json(json: str) -> str:
    """Return compact JSON with all line breaks, tags and citations escaped, safe within a line of the prompt."""
    return escape(_BREAK.sub(lambda found: f"\\u{ord(found[0]):04x}", json))
