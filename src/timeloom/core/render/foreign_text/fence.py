"""Fences foreign text, so that no line of it can be mistaken for a line of the runtime.

Every line of foreign text is prefixed with `| `, or with its line number and `| `. Tags inside a line are escaped: a
`~` is inserted into `<channel:`, `</channel:` and `[[S:`. `unescape` removes it.
"""

import re
from typing import Final

BAR: Final = "|"
"""The prefix of every fenced line, after its number if it has one."""

ESCAPE: Final = "~"
"""The character that is inserted into a tag or a citation. A backslash would break the JSON of a decision that copies
it."""

MAX_LINE_CHARS: Final = 300
"""Maximum length of foreign text within a line of the runtime, such as a title. Longer text makes headers
unreadable."""

# All Unicode line breaks count: `\r`, form feeds and U+2028 can start a "line" as well as `\n`.
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

# Lines that only the runtime may write: headers, sections and stubs. A leading `~` marks them as quoted text.
_RESERVED: Final = re.compile(
    rf"(?P<start>(?:\A|(?<=[{_BREAK}]))[^\S{_BREAK}]*+)(?={ESCAPE}*+(?:"
    r"\[[A-Z]{3}|\[(?:react\.|stage\.|AI Agent|path:|physical_path:)"
    r"|HIDDEN\b|PRUNED PRIOR|RECENT INTACT|CURRENT TURN|SOURCES POOL|ANNOUNCE\b))"
)


def fence(text: str, first_line: int | None = None) -> str:
    """Return the text with every line fenced, and numbered from `first_line` if given."""
    if not text:
        return ""
    out: list[str] = []
    number, counts = first_line, first_line is not None
    for piece in split_lines(escape(text)):
        mark = f"{number}{BAR}" if counts else BAR
        out.append(f"{mark} {piece}" if piece.strip(_BREAKS) else mark + piece)
        # Tools count lines by line feeds, so text after any other break gets no number.
        counts = number is not None and piece.endswith("\n")
        if counts and number is not None:
            number += 1
    return "".join(out)


def unfence(text: str) -> str:
    """Return the text that was passed to `fence`."""
    return unescape("".join(_PREFIX.sub("", piece, count=1) for piece in split_lines(text)))


def refence(text: str) -> str:
    """Return recorded fenced text with any bare line or tag fenced again.

    Lines that begin with `[PREVIEW]`, `[SHAPE]` or `[READ]` belong to the runtime and stay unchanged.
    """
    return "".join(
        piece if _PREFIX.match(piece) or piece.startswith(PREVIEW_MARKS) else f"{BAR} {piece}"
        for piece in split_lines(_BARE.sub(rf"\1{ESCAPE}", text))
    )


def escape_reserved(text: str) -> str:
    """Return text of the user or the agent with reserved lines and channel tags escaped."""
    return _RESERVED.sub(rf"\g<start>{ESCAPE}", _TAG.sub(rf"\1\2{ESCAPE}", text))


def one_line(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Return foreign text for use within one line: whitespace collapsed, escaped, and truncated."""
    line = escape(_SPACE.sub(" ", text[: limit * 4]).strip())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def escape(text: str) -> str:
    """Return the text with every channel tag and citation escaped."""
    return _OPEN.sub(rf"\1\2{ESCAPE}", text)


def unescape(text: str) -> str:
    """Return the text before `escape`, for text that the model copies from a fence into a tool call."""
    return _ESCAPED.sub(r"\1\2", text)


def split_lines(text: str) -> list[str]:
    """Return the lines of the text, each with its break; every Unicode line break counts."""
    found = _PIECE.findall(text)
    # The pattern matches once more, empty, at the end of a text that ends with a break.
    return found[:-1] if found[-1] == "" else found


PREVIEW_MARKS: Final = ("[PREVIEW]", "[SHAPE]", "[READ]")
"""Prefixes of the runtime's lines in a recorded preview."""

_BREAKS: Final = "\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
