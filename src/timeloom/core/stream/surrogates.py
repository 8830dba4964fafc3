"""Joins surrogate pairs across the pieces of a stream and replaces lone surrogates by U+FFFD."""

import re
from typing import Final

REPLACEMENT = "\ufffd"


class SurrogateJoiner:
    """Converts pieces of text to text that can be encoded; the joined result does not depend on the cuts."""

    __slots__ = ("half",)

    def __init__(self) -> None:
        self.half = ""
        """First half of a pair, held until the next character arrives; usually empty."""

    def feed(self, text: str) -> str:
        """Return the new text without a first half at its end."""
        text = self.half + text
        self.half = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self.half = text[-1]
            text = text[:-1]
        return replace_lone_surrogates(text)

    def close(self) -> str:
        """Return U+FFFD if a first half is left at the end of the text; else an empty string."""
        left = REPLACEMENT if self.half else ""
        self.half = ""
        return left


def replace_lone_surrogates(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def replace_lone_escapes(document: str) -> str:
    """Return JSON text of the same length with every lone surrogate escape replaced by that of U+FFFD."""
    if not _SURROGATE.search(document):
        return document
    return _ESCAPE.sub(lambda escape: "\\ufffd" if escape[1] else escape[0], document)


_SURROGATE: Final = re.compile(r"\\u[Dd][89A-Fa-f]")
_ESCAPE: Final = re.compile(
    r"\\(?:u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|(u[Dd][89A-Fa-f][0-9A-Fa-f]{2})|.)", re.DOTALL
)
