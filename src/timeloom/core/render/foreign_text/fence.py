"""The fence: foreign text as a prompt shows it, so that nothing in it can pass for the runtime's own lines.

One rule for lines: every line of foreign text stands behind `| `, or behind its number and `| `. One escape for what
would count in the middle of a line: a `~` goes into `<channel:`, `</channel:` and `[[S:`, and `unescape` takes it out.
"""

import re
from typing import Final

BAR: Final = "|"
"""What every fenced line begins with, behind its number if it has one."""

ESCAPE: Final = "~"
"""What is put into a tag or a citation. No backslash: a model that copies it into JSON would break its decision."""

MAX_LINE_CHARS: Final = 300
"""Longest foreign word in a line of our own, such as a title. Longer ones make headers unreadable."""

# A break that any reader knows counts as one: `\r`, form feeds and U+2028 could start a "line" as well as `\n`.
_BREAK: Final = "\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_PIECE: Final = re.compile(rf"[^{_BREAK}]*+(?:\r\n|[{_BREAK}]|\Z)")
_OF_TAG: Final = r"(</?+|\[)"
_WHAT: Final = r"(?=channel:|\[S:)"
_OPEN: Final = re.compile(rf"{_OF_TAG}({ESCAPE}*+){_WHAT}", re.IGNORECASE | re.ASCII)
_ESCAPED: Final = re.compile(rf"{_OF_TAG}{ESCAPE}({ESCAPE}*+){_WHAT}", re.IGNORECASE | re.ASCII)
_BARE: Final = re.compile(rf"{_OF_TAG}{_WHAT}", re.IGNORECASE | re.ASCII)
_TAG: Final = re.compile(rf"(</?+)({ESCAPE}*+)(?=channel:)", re.IGNORECASE | re.ASCII)
_PREFIX: Final = re.compile(r"[0-9]*+\|(?: |(?=[" + _BREAK + r"]|\Z))")
_SPACE: Final = re.compile(r"\s+")

# Lines that only the runtime writes: headers, sections and stands. A `~` in front makes them the speaker's own words.
_RESERVED: Final = re.compile(
    rf"(?P<start>(?:\A|(?<=[{_BREAK}]))[^\S{_BREAK}]*+)(?={ESCAPE}*+(?:"
    r"\[[A-Z]{3}|\[(?:react\.|stage\.|AI Agent|path:|physical_path:)"
    r"|HIDDEN\b|PRUNED PRIOR|RECENT INTACT|CURRENT TURN|SOURCES POOL|ANNOUNCE\b))"
)


def fence(text: str, first_line: int | None = None) -> str:
    """The text with every line behind the bar, and numbered from `first_line` where that is given."""
    if not text:
        return ""
    out: list[str] = []
    number, counts = first_line, first_line is not None
    for piece in pieces(escape(text)):
        mark = f"{number}{BAR}" if counts else BAR
        out.append(f"{mark} {piece}" if piece.strip(_BREAKS) else mark + piece)
        # Only a line feed ends a line that tools count; what follows another break goes on without a number.
        counts = number is not None and piece.endswith("\n")
        if counts and number is not None:
            number += 1
    return "".join(out)


def unfence(text: str) -> str:
    """What `fence` was given."""
    return unescape("".join(_PREFIX.sub("", piece, count=1) for piece in pieces(text)))


def refence(text: str) -> str:
    """Text that was fenced when it was recorded, made sure of: a line or a tag that stands bare is fenced now.

    Lines that begin with `[PREVIEW]`, `[SHAPE]` or `[READ]` are the runtime's own and stay.
    """
    return "".join(
        piece if _PREFIX.match(piece) or piece.startswith(PREVIEW_MARKS) else f"{BAR} {piece}"
        for piece in pieces(_BARE.sub(rf"\1{ESCAPE}", text))
    )


def guard(text: str) -> str:
    """Words of the user or of the agent: shown as they are, but for lines and tags that only the runtime writes."""
    return _RESERVED.sub(rf"\g<start>{ESCAPE}", _TAG.sub(rf"\1\2{ESCAPE}", text))


def one_line(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Foreign text within a line of our own: white space squeezed, escaped, and cut where it is too long."""
    line = escape(_SPACE.sub(" ", text[: limit * 4]).strip())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def escape(text: str) -> str:
    """The text with every channel tag and citation made harmless."""
    return _OPEN.sub(rf"\1\2{ESCAPE}", text)


def unescape(text: str) -> str:
    """What `escape` was given; for whatever the model copies out of a fence and hands to a tool."""
    return _ESCAPED.sub(r"\1\2", text)


def pieces(text: str) -> list[str]:
    """The lines of the text, each with its break; whatever any reader takes for a break is one."""
    found = _PIECE.findall(text)
    # The pattern matches once more, empty, at the end of a text that ends with a break.
    return found[:-1] if found[-1] == "" else found


PREVIEW_MARKS: Final = ("[PREVIEW]", "[SHAPE]", "[READ]")
"""How the runtime's own lines in a recorded preview begin."""

_BREAKS: Final = "\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
