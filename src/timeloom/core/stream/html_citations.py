"""Citations in HTML: the tokens in text that a browser shows and that may hold markup.

Tags, attributes, comments and the content of scripts, styles and code pass unread. An end that is forgotten (of a tag,
a comment, a `<code>`) hides what follows, as it does in a browser.
"""

import re
from typing import Final

from timeloom.core.stream.citation_tokens import Citation, citations_in, unfinished

_VERBATIM: Final = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE | re.ASCII)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
}
"""The elements whose content is not markup, and what ends each."""

_FOREIGN: Final = frozenset({"svg", "math"})
_CLOSED: Final = frozenset({"pre", "code", "kbd", "samp", "select", "button", "template", "noscript"}) | _FOREIGN
"""The elements into which no mark is put: code is shown as it is, and the others a mark would break."""

_MAX_NAME_CHARS: Final = 16
"""How much of an element's name is read: more than any of the names above has."""

_TAG_START: Final = re.compile(rf"<(/?)([A-Za-z][^\s/>]{{0,{_MAX_NAME_CHARS}}})", re.ASCII)
_STOPS: Final = {
    "name": re.compile(r"[\s/>]", re.ASCII),
    "tag": re.compile(r"[>=]"),
    "value": re.compile(r"\S", re.ASCII),
    "bare": re.compile(r"[\s>]", re.ASCII),
    '"': re.compile(r'"'),
    "'": re.compile(r"'"),
    "remark": re.compile(r">"),
    "comment": re.compile(r"-->"),
    **_VERBATIM,
}
"""The places in a document that are not text, and what to look for in each."""

_OVERLAPS: Final = {"comment": len("-->") - 1} | {name: len(f"</{name}") for name in _VERBATIM}
"""How much of an unfinished piece must be looked at again, where what is looked for is longer than a character."""


class HtmlFinder:
    """Finds citations in an HTML document."""

    def __init__(self) -> None:
        self._place = "text"
        self._name = ""
        self._is_end_tag = False
        self._last = ""
        self._open: dict[str, int] = {}
        self._in_link = False
        self._text = ""
        self._at = 0
        self._offset = 0
        self._found: list[Citation] = []

    @property
    def settled(self) -> int:
        """The offset up to which it is known which tokens are citations."""
        return self._offset

    def feed(self, text: str) -> list[Citation]:
        """The citations that this text completed."""
        self._text += text
        self._at = 0
        while self._read_text() if self._place == "text" else self._read_markup():
            pass
        self._offset += self._at
        self._text = self._text[self._at :]
        found, self._found = self._found, []
        return found

    def close(self) -> list[Citation]:
        """No citations: what is held back at the end is unfinished."""
        self._offset += len(self._text)
        self._text = ""
        return []

    def _read_text(self) -> bool:
        """Goes to the end of the next `<`; false if more text is needed."""
        start = self._at
        less = self._text.find("<", start)
        shown = self._text[start : less if less >= 0 else None]
        if not any(self._open.values()):
            self._found += citations_in(shown, self._offset + start, in_link=self._in_link)
        if less < 0:
            self._at = start + unfinished(shown)
            return False
        self._at = less
        return self._read_less()

    def _read_less(self) -> bool:
        tag = _TAG_START.match(self._text, self._at)
        if tag:
            return self._read_name(tag)
        head = self._text[self._at : self._at + len("<!--")]
        if head in ("<", "</", "<!", "<!-"):
            return False
        if head == "<!--":
            self._go("comment", self._at + len("<!"))
        elif head[1] in "!?/":
            self._go("remark", self._at + len("<!"))
        else:
            self._at += 1
        return True

    def _read_name(self, tag: re.Match[str]) -> bool:
        if tag.end() == len(self._text) and len(tag[2]) <= _MAX_NAME_CHARS:
            return False
        self._is_end_tag = tag[1] == "/"
        self._name = tag[2].lower()
        self._go("name", tag.end())
        return True

    def _go(self, place: str, at: int) -> None:
        self._place = place
        self._at = at

    def _read_markup(self) -> bool:
        """Goes to what ends the place; false if more text is needed."""
        stop = _STOPS[self._place].search(self._text, self._at)
        if stop is None:
            keep = _OVERLAPS.get(self._place, 0)
            self._at = max(self._at, len(self._text) - keep)
            self._last = self._text[-1:] or self._last
            return False
        if self._place in _VERBATIM:
            self._go("text", stop.start())
        elif self._place == "comment":
            self._go("text", stop.end())
        else:
            self._step(stop[0], stop.start())
        return True

    def _step(self, char: str, at: int) -> None:
        """Goes on within a tag, by the character that was looked for."""
        place = self._place
        if char == ">" and place != "remark":
            before = self._text[at - 1] if at else self._last
            self._go("text", at + 1)
            self._end_tag(closes_itself=before == "/" and place in ("name", "tag"))
        elif place == "remark":
            self._go("text", at + 1)
        elif place == "tag":
            self._go("value", at + 1)
        elif place == "value":
            self._go(char if char in "\"'" else "bare", at + 1)
        else:
            self._go("tag", at + 1)

    def _end_tag(self, *, closes_itself: bool) -> None:
        name = self._name
        foreign = any(self._open.get(outer) for outer in _FOREIGN)
        if self._is_end_tag:
            self._in_link &= name != "a"
            if self._open.get(name):
                self._open[name] -= 1
        elif name in _CLOSED:
            stays_open = not closes_itself or not (foreign or name in _FOREIGN)
            self._open[name] = self._open.get(name, 0) + stays_open
        elif name in _VERBATIM and not foreign:
            self._place = name
        else:
            self._in_link |= name == "a"
