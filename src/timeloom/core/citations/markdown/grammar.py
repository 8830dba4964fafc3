"""Parses the CommonMark constructs between characters and blocks: tags, link targets and definitions.

Every reader receives a window on a text that may still grow. It returns the end of its construct, `NO_MATCH` if there
is none, or `NEED_MORE` if the available text does not decide.
"""

import re
from typing import Final

import msgspec

NO_MATCH: Final = -1
NEED_MORE: Final = -2

MAX_LABEL_CHARS: Final = 999
"""Longest label of a link reference in CommonMark."""

_MAX_PARENS: Final = 32
"""Deepest nesting of parentheses in a link destination, as in the reference implementations."""

# Groups are atomic, not possessive: possessive groups match wrongly before Python 3.11.5.
_SPACE: Final = r"[ \t\n]"
_TAG_NAME: Final = r"[A-Za-z][A-Za-z0-9\-]*+"
_ATTRIBUTE: Final = (
    rf"{_SPACE}++[A-Za-z_:][A-Za-z0-9_.:\-]*+"
    rf"(?>(?:{_SPACE}*+={_SPACE}*+(?:[^\x00-\x20\"'=<>`]++|'[^']*+'|\"[^\"]*+\"))?)"
)
TAG: Final = re.compile(rf"<(?:{_TAG_NAME}(?>(?:{_ATTRIBUTE})*){_SPACE}*+/?>|/{_TAG_NAME}{_SPACE}*+>)")
"""One complete open or closing tag."""

_TAG_SO_FAR: Final = re.compile(
    rf"<(?:/?|/{_TAG_NAME}{_SPACE}*+|"
    rf"{_TAG_NAME}(?>(?:{_ATTRIBUTE})*){_SPACE}*+(?>(?:/|={_SPACE}*+(?>(?:'[^']*+|\"[^\"]*+)?))?))\Z"
)
_HOST: Final = r"[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?"
_MAILBOX: Final = r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~\-]"
_AUTOLINK: Final = re.compile(
    rf"<(?:[A-Za-z][A-Za-z0-9+.\-]{{1,31}}+:[^\x00-\x20<>]*+|{_MAILBOX}++@{_HOST}(?:\.{_HOST})*)>"
)
_AUTOLINK_SO_FAR: Final = re.compile(
    rf"<(?:[A-Za-z][A-Za-z0-9+.\-]{{0,31}}+(?::[^\x00-\x20<>]*+)?|{_MAILBOX}++(?:@[A-Za-z0-9.\-]*+)?)\Z"
)
_CDATA: Final = "<![CDATA["
_LABEL: Final = re.compile(r"\[[^\\\[\]]*+(?>(?:\\.[^\\\[\]]*+)*)\]", re.DOTALL)
_LABEL_SO_FAR: Final = re.compile(r"\[[^\\\[\]]*+(?>(?:\\.[^\\\[\]]*+)*)\\?\Z", re.DOTALL)
_ANGLED: Final = re.compile(r"<[^<>\\\n]*+(?>(?:\\[^\n][^<>\\\n]*+)*)>")
_ANGLED_SO_FAR: Final = re.compile(r"<[^<>\\\n]*+(?>(?:\\[^\n][^<>\\\n]*+)*)\\?\Z")
_PLAIN: Final = re.compile(r"[^\x00-\x20\x7f()\\]*+(?>(?:\\[!-/:-@\[-`{-~]?[^\x00-\x20\x7f()\\]*+)*)")
_SPACES: Final = re.compile(r"[ \t\n]*+")
_BLANKS: Final = re.compile(r"[ \t]*+")
_TITLES: Final = {
    opening: tuple(
        re.compile(rf"{re.escape(opening)}{inside}*+(?>(?:\\.{inside}*+)*){closing}", re.DOTALL)
        for closing in (last, r"\\?\Z")
    )
    for opening, inside, last in (('"', r'[^"\\]', '"'), ("'", r"[^'\\]", "'"), ("(", r"[^()\\]", r"\)"))
}
"""Characters that open a title, with the patterns of a complete title and of its beginnings."""


class TextWindow(msgspec.Struct, frozen=True, gc=False):
    """A text that is read up to `end`; `more` is whether more text may arrive there."""

    text: str
    end: int
    more: bool

    def char_at(self, position: int) -> str:
        """Return the character at that position; empty at the end."""
        return self.text[position] if position < self.end else ""

    @property
    def at_end(self) -> int:
        """Result of a reader that reached the end: `NEED_MORE` or `NO_MATCH`."""
        return NEED_MORE if self.more else NO_MATCH

    def read(self, whole: re.Pattern[str], so_far: re.Pattern[str], position: int) -> int:
        """Return where a match of `whole` ends; `so_far` matches the beginnings that need more text."""
        found = whole.match(self.text, position, self.end)
        if found:
            return found.end()
        return NEED_MORE if self.more and so_far.match(self.text, position, self.end) else NO_MATCH


class TerminatorSearch:
    """Finds the ends of comments and similar constructs without searching the same text twice."""

    def __init__(self) -> None:
        self._clear: dict[str, int] = {}

    def find_end(self, window: TextWindow, terminator: str, position: int, origin: int) -> int:
        """Return where the next terminator ends; `origin` is the number of characters dropped before the window."""
        start = max(position, self._clear.get(terminator, 0) - origin)
        found = window.text.find(terminator, start, window.end)
        clear = found if found >= 0 else max(start, window.end - len(terminator) + 1)
        self._clear[terminator] = clear + origin
        return found + len(terminator) if found >= 0 else window.at_end


def angle_end(window: TextWindow, position: int, terminators: TerminatorSearch, origin: int) -> int:
    """Return the end of the autolink, tag, comment or similar construct that begins with `<` at that position."""
    text = window.text
    following = window.char_at(position + 1)
    if following == "":
        return window.at_end
    if following == "?":
        return terminators.find_end(window, "?>", position + 2, origin)
    if following == "!":
        return _declaration_end(window, position, terminators, origin)
    link = window.read(_AUTOLINK, _AUTOLINK_SO_FAR, position)
    tag = window.read(TAG, _TAG_SO_FAR, position) if following == "/" or text[position + 1].isalpha() else NO_MATCH
    return max(link, tag) if link >= 0 or tag >= 0 else min(link, tag)


def inline_target_end(window: TextWindow, position: int) -> int:
    """Return the end of the `(destination "title")` at that position."""
    position = _skip(_SPACES, window, position + 1)
    position = _destination_end(window, position)
    if position < 0:
        return position
    gap = _skip(_SPACES, window, position)
    if gap > position and window.char_at(gap) in _TITLES and gap < window.end:
        gap = _title_end(window, gap)
        if gap < 0:
            return gap
        gap = _skip(_SPACES, window, gap)
    if gap >= window.end:
        return window.at_end
    return gap + 1 if window.text[gap] == ")" else NO_MATCH


def label_end(window: TextWindow, position: int) -> int:
    """Return the end of the `[label]` at that position."""
    end = window.read(_LABEL, _LABEL_SO_FAR, position)
    length = (window.end if end == NEED_MORE else end) - position - 2
    return NO_MATCH if length > MAX_LABEL_CHARS else end


def normalize_label(text: str) -> str:
    """Return the label in the form in which definitions and references are compared."""
    return " ".join(text.casefold().split())


def definition_end(window: TextWindow, position: int) -> int:
    """Return the end of the link reference definition at that position, without its last line end."""
    end = label_end(window, position)
    if end < 0:
        return end
    if not normalize_label(window.text[position + 1 : end - 1]):
        return NO_MATCH
    following = window.char_at(end)
    if following != ":":
        return NO_MATCH if following else window.at_end
    start = _skip(_SPACES, window, end + 1)
    if start >= window.end:
        return window.at_end
    end = _destination_end(window, start)
    return end if end < 0 else _definition_title_end(window, start, end)


def _definition_title_end(window: TextWindow, start: int, end: int) -> int:
    if end == start:
        return NO_MATCH
    gap = _skip(_BLANKS, window, end)
    if gap >= window.end and window.more:
        return NEED_MORE
    line_end = gap if window.char_at(gap) in ("", "\n") else NO_MATCH
    start = _skip(_SPACES, window, end)
    if start == end or start >= window.end:
        return NEED_MORE if window.more and start > end else line_end
    if window.text[start] not in _TITLES:
        return line_end
    end = _title_end(window, start)
    if end < 0:
        return line_end if end == NO_MATCH else end
    end = _skip(_BLANKS, window, end)
    if end >= window.end and window.more:
        return NEED_MORE
    return end if window.char_at(end) in ("", "\n") else line_end


def _declaration_end(window: TextWindow, position: int, terminators: TerminatorSearch, origin: int) -> int:
    head = window.text[position : min(position + len(_CDATA), window.end)]
    if head.startswith(("<!-->", "<!--->")):
        return position + head.index(">") + 1
    if head.startswith("<!--"):
        # A `-->` cannot share dashes with the opening, but "<!--" and "<!---" may still become the empty forms above.
        if window.more and head in ("<!--", "<!---"):
            return NEED_MORE
        return terminators.find_end(window, "-->", position + len("<!--"), origin)
    if head == _CDATA:
        return terminators.find_end(window, "]]>", position + len(_CDATA), origin)
    if head[2:3].isascii() and head[2:3].isalpha():
        return terminators.find_end(window, ">", position + 3, origin)
    return NEED_MORE if window.more and (head == "<!-" or _CDATA.startswith(head)) else NO_MATCH


def _destination_end(window: TextWindow, position: int) -> int:
    if window.char_at(position) == "<":
        return window.read(_ANGLED, _ANGLED_SO_FAR, position)
    depth = 0
    while True:
        position = _skip(_PLAIN, window, position)
        match window.char_at(position):
            case "(":
                depth += 1
            case ")" if depth:
                depth -= 1
            case "" if window.more:
                return NEED_MORE
            case _:
                return position if not depth else NO_MATCH
        if depth > _MAX_PARENS:
            return NO_MATCH
        position += 1


def _title_end(window: TextWindow, position: int) -> int:
    whole, so_far = _TITLES[window.text[position]]
    return window.read(whole, so_far, position)


def _skip(pattern: re.Pattern[str], window: TextWindow, position: int) -> int:
    found = pattern.match(window.text, position, window.end)
    return found.end() if found else position
