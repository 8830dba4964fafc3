"""Removes control and bidirectional characters from untrusted text before a terminal prints it."""

import re
from typing import Final

_CONTROL_PICTURES: Final = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)}
_REPLACEMENT: Final = "\ufffd"
_BIDI_CONTROLS: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Bidirectional control characters, which can make text read differently from its content."""

_TABLE: Final = str.maketrans(
    {code: chr(picture) for code, picture in _CONTROL_PICTURES.items()}
    | {0x7F: "\u2421", 0x85: "\n", 0x2028: "\n", 0x2029: "\n"}
    | {code: _REPLACEMENT for code in range(0x80, 0xA0) if code != 0x85}
    | {ord(char): _REPLACEMENT for char in _BIDI_CONTROLS}
)
_LONE_SURROGATES: Final = re.compile("[\ud800-\udfff]")

TAB_COLUMNS: Final = 4


def sanitize(text: str, *, keep_tabs: bool = False) -> str:
    """Return the text with a visible sign for every control character.

    Line ends stay. Tabs become spaces unless `keep_tabs` is set.
    """
    if text.isascii() and text.isprintable():
        return text
    plain = text.replace("\r\n", "\n").translate(_TABLE)
    plain = plain if keep_tabs else plain.expandtabs(TAB_COLUMNS)
    return _LONE_SURROGATES.sub(_REPLACEMENT, plain)


def one_line(text: str, most: int = 200) -> str:
    """Return the start of the sanitized text on one line of at most `most` characters, cut with an ellipsis."""
    most = max(most, 1)
    # Spaces collapse, so more than `most` characters are read, but never all of a large text.
    words = " ".join(sanitize(text[: most * 4 + 100]).split())
    cut = len(words) > most or len(text) > most * 4 + 100
    return words[: most - 1] + "…" if cut else words
