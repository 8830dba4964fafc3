"""Harmless text: what others wrote, without what a terminal would obey or what would mislead its reader."""

import re
from typing import Final

_CONTROL_PICTURES: Final = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)}
_REPLACEMENT: Final = "\ufffd"
_MISLEADING: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that make text run the other way, so that what is read is not what is meant."""

_TABLE: Final = str.maketrans(
    {code: chr(picture) for code, picture in _CONTROL_PICTURES.items()}
    | {0x7F: "\u2421", 0x85: "\n", 0x2028: "\n", 0x2029: "\n"}
    | {code: _REPLACEMENT for code in range(0x80, 0xA0) if code != 0x85}
    | {ord(char): _REPLACEMENT for char in _MISLEADING}
)
_HALVES: Final = re.compile("[\ud800-\udfff]")

TAB_COLUMNS: Final = 4


def harmless(text: str, *, keep_tabs: bool = False) -> str:
    """The text with a visible sign for every control character; line ends stay, tabs become spaces unless kept."""
    if text.isascii() and text.isprintable():
        return text
    plain = text.replace("\r\n", "\n").translate(_TABLE)
    plain = plain if keep_tabs else plain.expandtabs(TAB_COLUMNS)
    return _HALVES.sub(_REPLACEMENT, plain)


def one_line(text: str, most: int = 200) -> str:
    """The start of the text on one line of at most so many characters; what is cut off shows as an ellipsis."""
    most = max(most, 1)
    # Many spaces may stand between words, but not so many that the whole of a large text is worth looking at.
    words = " ".join(harmless(text[: most * 4 + 100]).split())
    cut = len(words) > most or len(text) > most * 4 + 100
    return words[: most - 1] + "…" if cut else words
