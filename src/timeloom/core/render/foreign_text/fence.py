"""Fences foreign text, so that no line of it can be mistaken for a line of the runtime.

Every line of foreign text is prefixed with `| `, or with its line number and `| `. Tags inside a line are escaped: a
`~` is inserted into `<channel:`, `</channel:` and `[[S:`. `unescape` removes it.
"""

import re
from typing import Final

from timeloom.core.plans.marks import SIGN
from timeloom.core.view.turn_index import fold_line

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
_BARE_TAG: Final = re.compile(r"(</?+)(?=channel:)", re.IGNORECASE | re.ASCII)
_PREFIX: Final = re.compile(r"[0-9]*+\|(?: |(?=[" + _BREAK + r"]|\Z))")
_SPACE: Final = re.compile(r"\s+")

# Lines that only the runtime may write: headers, sections and stubs. A leading `~` marks them as quoted text.
_RESERVED: Final = re.compile(
    rf"(?P<start>(?:\A|(?<=[{_BREAK}]))[^\S{_BREAK}]*+)(?={ESCAPE}*+(?:"
    r"\[[A-Z]{3}|\[(?:react\.|stage\.|AI Agent|path:|physical_path:)"
    r"|HIDDEN\b|PRUNED PRIOR|RECENT INTACT|CURRENT TURN|SOURCES POOL|ANNOUNCE\b))"
)

IMITATIONS_FROM: Final = 3
"""The first rendering that also escapes imitations. Before it, recorded requests contain them unescaped."""

# Characters without a visible form, except line breaks: controls, formats, joiners, fillers, selectors and tags.
_INVISIBLE: Final = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANK: Final = rf"\t \xa0\u1680\u2000-\u200a\u202f\u205f\u3000{_INVISIBLE}"
_GAP: Final = rf"[{_INVISIBLE}]*+"
_LINE_LEAD: Final = rf"(?:\A|(?<=[{_BREAK}]))[{_BLANK}]*+"


def _spaced(words: str) -> str:
    """Return a pattern of these words with invisible characters anywhere in them; a space is any white space."""
    return _GAP.join(r"\s" if char == " " else re.escape(char) for char in words)


_HEADER_IMITATION: Final = re.compile(
    rf"(?P<start>{_LINE_LEAD})(?=[{ESCAPE}{_INVISIBLE}]*+(?:"
    + "|".join(
        (
            _GAP.join((r"\[", "[A-Z]", "[A-Z]", "[A-Z]")),
            *map(_spaced, ("[react.", "[stage.", "[AI Agent", "[path:", "[physical_path:")),
            *(rf"{_spaced(word)}\b" for word in ("HIDDEN", "ANNOUNCE")),
            *map(_spaced, ("PRUNED PRIOR", "RECENT INTACT", "CURRENT TURN", "SOURCES POOL")),
        )
    )
    + "))"
)
_MARK_IMITATION: Final = re.compile(
    rf"(?P<start>{_LINE_LEAD}(?>(?:[-*+•][{_BLANK}]++)?))"
    rf"(?=(?:{SIGN})[{_BLANK}]*+"
    rf"(?:\[{_GAP}[1-9]{_GAP}[0-9]?{_GAP}\]|[1-9]{_GAP}[0-9]?{_GAP}[.)](?![^\s{_INVISIBLE}])))"
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
        for piece in split_lines(escape_bare(text))
    )


def escape_reserved(text: str, rendering: int = 2) -> str:
    """Return text of the user or the agent with reserved lines and channel tags escaped.

    From the rendering `IMITATIONS_FROM` on, lines are also escaped that look reserved: headers with invisible
    characters before or in them, and marks of plan steps.
    """
    escaped = escape_channels(text)
    if rendering < IMITATIONS_FROM:
        return _RESERVED.sub(append_escape, escaped)
    return _MARK_IMITATION.sub(append_escape, _HEADER_IMITATION.sub(append_escape, escaped))


def one_line(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Return foreign text for use within one line: whitespace collapsed, escaped, and truncated."""
    line = escape(_SPACE.sub(" ", text[: limit * 4]).strip())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def excerpt(text: str, limit: int = MAX_LINE_CHARS) -> str:
    """Return foreign text for use within one line of a text that is recorded when it is made.

    Unlike `one_line`, it keeps all characters except ASCII white space, and shows other line breaks as escapes.
    """
    line = escape(fold_line(text[: limit * 4]))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def escape(text: str) -> str:
    """Return the text with every channel tag and citation escaped."""
    return _OPEN.sub(append_escape, text)


def escape_channels(text: str) -> str:
    """Return the text with every channel tag escaped; citations stay as they are."""
    return _TAG.sub(append_escape, text)


def escape_bare(text: str) -> str:
    """Return the text with every channel tag and citation escaped that is not yet."""
    return _BARE.sub(append_escape, text)


def escape_bare_channels(text: str) -> str:
    """Return the text with every channel tag escaped that is not yet; citations stay as they are."""
    return _BARE_TAG.sub(append_escape, text)


def append_escape(found: re.Match[str]) -> str:
    """Return the match with the escape after it.

    A function, because `re` finds a template by a hash over the whole pattern. That takes longer than most searches.
    """
    return found[0] + ESCAPE


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
