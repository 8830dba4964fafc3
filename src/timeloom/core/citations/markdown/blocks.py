"""Markdown's block structure, line by line: which part of a line is inline text and which is code, HTML or markup.

It follows CommonMark: block quotes and list items are containers, and a line is first held against those that are open.
"""

import re
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from timeloom.core.citations.markdown.grammar import TAG

MAX_DEPTH: Final = 64
"""Most block quotes and list items inside one another. Smaller would misread deep outlines; larger makes each line of a
hostile text cost more."""

_HTML_BLOCKS: Final = (
    "address article aside base basefont blockquote body caption center col colgroup dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hr html iframe legend li link "
    "main menu menuitem nav noframes ol optgroup option p param search section summary table tbody td tfoot th thead "
    "title tr track ul"
)
_RAW_NAMES: Final = "script|pre|style|textarea"
_ANY_CASE: Final = re.IGNORECASE | re.ASCII
_HTML_STARTS: Final = (
    (re.compile(rf"<(?:{_RAW_NAMES})(?=[ \t>]|\Z)", _ANY_CASE), re.compile(rf"</(?:{_RAW_NAMES})>", _ANY_CASE)),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<![A-Za-z]"), re.compile(r">")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(rf"</?(?:{_HTML_BLOCKS.replace(' ', '|')})(?=[ \t]|/?>|\Z)", _ANY_CASE), None),
)
_LONE_TAG: Final = re.compile(rf"{TAG.pattern}[ \t]*\Z")
MAX_HTML_END_CHARS: Final = len("</textarea>")
"""Longest text that ends an HTML block; what is searched for it in pieces overlaps by this much."""

_FENCE: Final = re.compile(r"`{3,}+(?![^`]*+`)|~{3,}+")
_HEADING: Final = re.compile(r"#{1,6}+(?=[ \t]|\Z)")
_UNDERLINE: Final = re.compile(r"(?:=++|-++)[ \t]*+\Z")
_RULE: Final = re.compile(r"(?>(?:\*[ \t]*+){3,}|(?:_[ \t]*+){3,}|(?:-[ \t]*+){3,})\Z")
_BULLET: Final = re.compile(r"(?:[*+\-]|([0-9]{1,9})[.)])(?=[ \t]|\Z)")
_TITLE_STARTS: Final = ('"', "'", "(")


class Quote(msgspec.Struct, frozen=True, gc=False):
    """An open block quote."""


class Item(msgspec.Struct, frozen=True, gc=False):
    """An open list item: how far its content is indented, and whether it has none yet."""

    indent: int
    empty: bool


class Fence(msgspec.Struct, frozen=True, gc=False):
    """An open fenced code block."""

    marker: str


class Html(msgspec.Struct, frozen=True, gc=False):
    """An open HTML block; it ends at a match of the pattern, or else at a blank line."""

    end: re.Pattern[str] | None


class Line(msgspec.Struct, frozen=True, gc=False):
    """What a line is: inline text from `start` to `end` of it, or nothing that is shown as text.

    A line that begins like the title of the definition before it is a `title`, which may still turn out to be none.
    `decided` says that a longer line with this beginning is the same, given that a citation token stands in it.
    """

    kind: Literal["new", "continued", "title", "heading", "raw"]
    start: int = 0
    end: int = 0
    decided: bool = True


_RAW: Final = Line("raw")
_OPEN_ENDED: Final = Line("raw", decided=False)


class Blocks:
    """The open blocks at one place of a document."""

    def __init__(self) -> None:
        self._containers: list[Quote | Item] = []
        self._leaf: Fence | Html | Literal["paragraph", "indented"] | None = None
        self._after_blank = False

    def copy(self) -> "Blocks":
        """The same place, to go on from in another way."""
        other = Blocks()
        other._containers = self._containers.copy()
        other._leaf = self._leaf
        other._after_blank = self._after_blank
        return other

    @property
    def html_end(self) -> re.Pattern[str] | None:
        """What ends the open HTML block, if it is one that does not end at a blank line."""
        return self._leaf.end if isinstance(self._leaf, Html) else None

    def end_leaf(self) -> None:
        """Says that the open paragraph, code or HTML block has ended."""
        self._leaf = None

    def take(self, text: str, is_definition: Callable[[], bool]) -> Line:
        """What the next line is; asks whether the open paragraph so far is nothing but link reference definitions."""
        line = _Cursor(text)
        if line.blank and self._after_blank:
            # One blank line closed all that blank lines close: many must not go through a deep list each.
            return _RAW
        self._after_blank = line.blank
        self._match(line)
        if line.depth == len(self._containers) and self._leaf not in (None, "paragraph") and self._stays(line):
            return _RAW
        if self._leaf != "paragraph":
            self._cut(line)
        elif not line.blank and is_definition():
            if line.char in _TITLE_STARTS:
                return Line("title", line.next, len(line.text))
            # Nothing of a paragraph is left for this line to continue.
            self._cut(line)
        line.inside = self._leaf == "paragraph" and line.depth == len(self._containers)
        return self._start(line)

    def _match(self, line: "_Cursor") -> None:
        """Goes past the markers of the containers that are continued."""
        for container in self._containers:
            if isinstance(container, Quote):
                if line.indent > 3 or line.char != ">":
                    return
                line.skip_quote()
            else:
                if container.empty if line.blank else line.indent < container.indent:
                    return
                line.skip(container.indent)
                self._containers[line.depth] = Item(container.indent, empty=False)
            line.depth += 1

    def _stays(self, line: "_Cursor") -> bool:
        """Whether the line belongs to the open code or HTML block, which it may end."""
        match self._leaf:
            case Fence(marker=marker):
                run = line.rest.rstrip(" \t")
                if line.indent <= 3 and len(run) >= len(marker) and run == marker[0] * len(run):
                    self._leaf = None
                return True
            case Html(end=end):
                stays = end is not None or not line.blank
                if not stays or (end and end.search(line.rest)):
                    self._leaf = None
                return stays
            case _:
                return line.blank or line.indent > 3

    def _start(self, line: "_Cursor") -> Line:
        opened = True
        while opened:
            opened = False
            if line.blank:
                self._cut(line)
                return _RAW
            if line.indent > 3:
                if self._leaf == "paragraph":
                    break
                self._leaf = "indented"
                return _RAW
            outcome = self._open(line)
            if isinstance(outcome, Line):
                return outcome
            opened = outcome
        kind = "continued" if self._leaf == "paragraph" else "new"
        self._leaf = "paragraph"
        return Line(kind, line.next, len(line.text), decided=line.char != "<")

    def _open(self, line: "_Cursor") -> Line | bool:
        """The line if it is known now, or whether it opened a container in which to look on."""
        match line.char:
            case ">":
                return self._quote(line)
            case "#":
                return self._heading(line)
            case "`" | "~":
                return self._fence(line)
            case "<":
                return self._html(line)
            case "=" | "-" | "*" | "_" | "+":
                return self._underline(line) or self._rule(line) or self._item(line)
            case _:
                return self._item(line)

    def _cut(self, line: "_Cursor") -> None:
        """Closes what the line does not continue."""
        del self._containers[line.depth :]
        self._leaf = None
        line.inside = False

    def _push(self, line: "_Cursor", container: Quote | Item) -> None:
        self._containers.append(container)
        line.depth += 1

    def _quote(self, line: "_Cursor") -> bool:
        if line.depth >= MAX_DEPTH:
            return False
        self._cut(line)
        line.skip_quote()
        self._push(line, Quote())
        return True

    def _item(self, line: "_Cursor") -> bool:
        marker = _BULLET.match(line.text, line.next)
        if marker is None or line.depth >= MAX_DEPTH:
            return False
        empty = not line.text[marker.end() :].strip(" \t")
        if line.inside and (empty or (marker[1] and int(marker[1]) != 1)):
            return False
        self._cut(line)
        indent = line.indent + len(marker[0])
        line.skip(indent)
        # Five spaces and more are one space and indented code.
        padding = 1 if empty or line.indent > 4 else line.indent
        line.skip(padding)
        self._push(line, Item(indent + padding, empty))
        return True

    def _heading(self, line: "_Cursor") -> Line | bool:
        marker = _HEADING.match(line.text, line.next)
        if marker is None:
            return False
        self._cut(line)
        content = line.text[marker.end() :].rstrip(" \t")
        shorter = content.rstrip("#")
        if not shorter or shorter[-1] in " \t":
            content = shorter
        return Line("heading", marker.end(), marker.end() + len(content), decided=False)

    def _fence(self, line: "_Cursor") -> Line | bool:
        marker = _FENCE.match(line.text, line.next)
        if marker is None:
            return False
        self._cut(line)
        self._leaf = Fence(marker[0])
        return _OPEN_ENDED

    def _html(self, line: "_Cursor") -> Line | bool:
        for start, end in _HTML_STARTS:
            if start.match(line.text, line.next):
                self._cut(line)
                self._leaf = None if end and end.search(line.rest) else Html(end)
                return _OPEN_ENDED
        if self._leaf == "paragraph" or not _LONE_TAG.match(line.text, line.next):
            return False
        self._leaf = Html(None)
        return _OPEN_ENDED

    def _underline(self, line: "_Cursor") -> Line | bool:
        if not line.inside or not _UNDERLINE.match(line.text, line.next):
            return False
        self._leaf = None
        return _RAW

    def _rule(self, line: "_Cursor") -> Line | bool:
        if not _RULE.match(line.text, line.next):
            return False
        self._cut(line)
        return _RAW


class _Cursor:
    """A place in a line, in characters and in columns, with how many of the open containers the line continues."""

    __slots__ = ("_at", "_column", "depth", "indent", "inside", "next", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0
        self._column = 0
        self.depth = 0
        self.inside = False  # whether what starts here would interrupt a paragraph of the innermost container
        self._look()

    @property
    def blank(self) -> bool:
        return self.next == len(self.text)

    @property
    def char(self) -> str:
        return self.text[self.next : self.next + 1]

    @property
    def rest(self) -> str:
        return self.text[self.next :]

    def skip(self, columns: int) -> None:
        """Goes past as many columns of the line; a tab may be gone past in part."""
        while columns > 0 and self._at < len(self.text):
            width = 4 - self._column % 4 if self.text[self._at] == "\t" else 1
            self._at += width <= columns
            self._column += min(width, columns)
            columns -= width
        self._look()

    def skip_quote(self) -> None:
        """Goes past a `>` and the space that may follow it."""
        self.skip(self.indent + 1)
        if self.indent:
            self.skip(1)

    def _look(self) -> None:
        """Finds the next character that is no space, and how many columns away it is."""
        column = self._column
        at = self._at
        while (char := self.text[at : at + 1]) in (" ", "\t"):
            column += 4 - column % 4 if char == "\t" else 1
            at += 1
        self.next = at
        self.indent = column - self._column
