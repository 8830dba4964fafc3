"""Finds citations in the visible text of an HTML document.

Tags, attributes, comments and the content of scripts, styles and code are skipped. A missing end (of a tag, a comment,
a `<code>`) hides the rest, as it does in a browser.
"""

import re
from typing import Final

from timeloom.core.citations.tokens import Citation, find_citations_in_text, find_unfinished

_SPACE: Final = r" \t\n\f\r"
_ANY_CASE: Final = re.IGNORECASE | re.ASCII
_RAW_TEXT_ENDS: Final = {
    name: re.compile(rf"</{name}(?=[{_SPACE}/>])", _ANY_CASE)
    for name in ("style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
} | {"plaintext": re.compile(r"(?!)")}
"""Elements whose content is not markup, with the pattern that ends each; `plaintext` extends to the end of the
document."""

_SCRIPT: Final = {
    "script": re.compile(rf"<!(?=--)|</script(?=[{_SPACE}/>])", _ANY_CASE),
    "script remark": re.compile(rf"-->|</?script(?=[{_SPACE}/>])", _ANY_CASE),
    "script in remark": re.compile(rf"-->|</script(?=[{_SPACE}/>])", _ANY_CASE),
}
_SCRIPT_TRANSITIONS: Final = {
    ("script", "<!"): "script remark",
    ("script remark", "-->"): "script",
    ("script remark", "<script"): "script in remark",
    ("script in remark", "-->"): "script",
    ("script in remark", "</script"): "script remark",
}
"""Transitions within a script; any other match ends it. Inside a comment, a script may contain a script."""

_FOREIGN: Final = frozenset({"svg", "math"})
_OPAQUE_ELEMENTS: Final = (
    frozenset({"pre", "code", "kbd", "samp", "select", "button", "template", "noscript"}) | _FOREIGN
)
"""Elements that get no citation marks: code is shown unchanged, and a mark would break the others."""

_MAX_NAME_CHARS: Final = 16
"""Characters of an element's name that are read: more than any name above has."""

_TAG_START: Final = re.compile(rf"<(/?)([A-Za-z][^{_SPACE}/>]{{0,{_MAX_NAME_CHARS}}})")
_EMPTY_COMMENT: Final = re.compile(r"<!---?>")
_STATE_ENDS: Final = {
    "name": re.compile(rf"[{_SPACE}/>]"),
    "tag": re.compile(rf"[^{_SPACE}/]"),
    "attribute": re.compile(rf"[{_SPACE}/>=]"),
    "after attribute": re.compile(rf"[^{_SPACE}]"),
    "value": re.compile(rf"[^{_SPACE}]"),
    "bare": re.compile(rf"[{_SPACE}>]"),
    '"': re.compile(r'"'),
    "'": re.compile(r"'"),
    "remark": re.compile(r">"),
    "comment": re.compile(r"--!?>"),
    **_RAW_TEXT_ENDS,
    **_SCRIPT,
}
"""States that are not text, with the pattern that ends each."""

_TAG_STATES: Final = frozenset({"name", "tag", "attribute", "after attribute", "value", "bare", '"', "'", "remark"})
"""States inside a tag or a declaration."""

_OVERLAPS: Final = (
    {"comment": len("--!>") - 1}
    | {name: len(f"</{name}") for name in _RAW_TEXT_ENDS}
    | {place: len("</script") for place in _SCRIPT}
)
"""Characters of an unfinished piece to search again, for patterns longer than one character."""


class HtmlFinder:
    """Finds citations in an HTML document, or in the HTML of a Markdown document if `embedded` is set.

    A Markdown parser passes embedded HTML block by block (`begin_at`, `feed`, `end_block`), and the tags in its
    paragraphs one by one (`read_tag`).
    """

    def __init__(self, *, embedded: bool = False) -> None:
        self._embedded = embedded
        self._state = "text"
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
        """Offset up to which all citations are known."""
        return self._offset

    @property
    def hides_text(self) -> bool:
        """Whether text at this place gets no citation marks, because it is code, a script or something similar."""
        return self.in_raw_text or any(self._open.values())

    @property
    def in_raw_text(self) -> bool:
        """Whether text at this place is no markup, such as a script or a comment, or part of a tag."""
        return self._state != "text"

    @property
    def in_link(self) -> bool:
        """Whether text at this place is part of a link."""
        return self._in_link

    def count_open(self, name: str) -> int:
        """Return how many elements of this name without citation marks are open."""
        return self._open.get(name, 0)

    def copy(self) -> "HtmlFinder":
        """Return a finder for one paragraph that begins inside the same elements."""
        other = HtmlFinder(embedded=self._embedded)
        other._state, other._open, other._in_link = self._state, dict(self._open), self._in_link
        return other

    def begin_at(self, offset: int) -> None:
        """Announce that the next text is at this offset; text between it and the last one is not HTML."""
        self._offset = offset - len(self._text)

    def read_tag(self, tag: str) -> None:
        """Follow a complete tag."""
        self.feed(tag)

    def end_block(self) -> None:
        """End a block of embedded HTML: an unfinished tag is text, and open elements stay open."""
        self._text = ""
        if self._state in _TAG_STATES:
            self._state = "text"

    def end_paragraph(self, paragraph: "HtmlFinder") -> None:
        """Close the elements that a paragraph closed; those that it opened end with it."""
        self._open = {name: min(count, paragraph.count_open(name)) for name, count in self._open.items()}
        self._in_link &= paragraph.in_link
        if not paragraph.in_raw_text:
            self._state = "text"

    def feed(self, text: str) -> list[Citation]:
        """Return the citations that this text completed."""
        self._text += text
        self._at = 0
        while self._read_text() if self._state == "text" else self._read_markup():
            pass
        self._offset += self._at
        self._text = self._text[self._at :]
        found, self._found = self._found, []
        return found

    def close(self) -> list[Citation]:
        """Return no citations: text that is still held back is unfinished."""
        self._offset += len(self._text)
        self._text = ""
        return []

    def _read_text(self) -> bool:
        """Read up to the end of the next `<`; return False if more text is needed."""
        start = self._at
        less = self._text.find("<", start)
        shown = self._text[start : less if less >= 0 else None]
        if not any(self._open.values()):
            self._found += find_citations_in_text(
                shown, self._offset + start, in_link=self._in_link, in_html=self._embedded
            )
        if less < 0:
            self._at = start + find_unfinished(shown)
            return False
        self._at = less
        return self._read_angle()

    def _read_angle(self) -> bool:
        tag = _TAG_START.match(self._text, self._at)
        if tag:
            return self._read_name(tag)
        head = self._text[self._at : self._at + len("<!--->")]
        if head in ("<", "</", "<!", "<!-", "<!--", "<!---"):
            return False
        if empty := _EMPTY_COMMENT.match(head):
            self._at += empty.end()
        elif head.startswith("<!--"):
            self._enter("comment", self._at + len("<!--"))
        elif head[1] in "!?/":
            self._enter("remark", self._at + len("<!"))
        else:
            self._at += 1
        return True

    def _read_name(self, tag: re.Match[str]) -> bool:
        if tag.end() == len(self._text) and len(tag[2]) <= _MAX_NAME_CHARS:
            return False
        self._is_end_tag = tag[1] == "/"
        self._name = tag[2].lower()
        self._enter("name", tag.end())
        return True

    def _enter(self, state: str, at: int) -> None:
        self._state = state
        self._at = at

    def _read_markup(self) -> bool:
        """Read up to the end of the current state; return False if more text is needed."""
        stop = _STATE_ENDS[self._state].search(self._text, self._at)
        if stop is None:
            keep = _OVERLAPS.get(self._state, 0)
            self._at = max(self._at, len(self._text) - keep)
            self._last = self._text[-1:] or self._last
            return False
        if self._state in _SCRIPT:
            onward = _SCRIPT_TRANSITIONS.get((self._state, stop[0].lower()))
            self._enter(onward or "text", stop.end() if onward else stop.start())
        elif self._state in _RAW_TEXT_ENDS:
            self._enter("text", stop.start())
        elif self._state == "comment":
            self._enter("text", stop.end())
        else:
            self._advance_in_tag(stop[0], stop.start())
        return True

    def _advance_in_tag(self, char: str, at: int) -> None:
        """Advance within a tag by the character that was found."""
        state = self._state
        if char == ">":
            before = self._text[at - 1] if at else self._last
            self._enter("text", at + 1)
            if state != "remark":
                self._end_tag(closes_itself=before == "/" and state == "tag")
        else:
            self._enter(_next_state(state, char), at + 1)

    def _end_tag(self, *, closes_itself: bool) -> None:
        name = self._name
        foreign = any(self._open.get(outer) for outer in _FOREIGN)
        if self._is_end_tag:
            self._in_link &= name != "a"
            if self._open.get(name):
                self._open[name] -= 1
        elif name in _OPAQUE_ELEMENTS:
            stays_open = not closes_itself or not (foreign or name in _FOREIGN)
            self._open[name] = self._open.get(name, 0) + stays_open
        elif name == "plaintext" or (name in (*_RAW_TEXT_ENDS, "script") and not foreign):
            self._state = name
        else:
            self._in_link |= name == "a"


def _next_state(state: str, char: str) -> str:
    """Return the state within a tag that follows this character."""
    match state, char:
        case ("attribute" | "after attribute", "="):
            return "value"
        case ("attribute" | "after attribute", "/"):
            return "tag"
        case ("tag" | "after attribute", _):
            return "attribute"  # also for `=`, since a name may begin with it
        case ("attribute", _):
            return "after attribute"
        case ("value", _):
            return char if char in "\"'" else "bare"
        case _:
            return "tag"
