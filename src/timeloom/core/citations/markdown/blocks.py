"""Parses Markdown's block structure by line: which part is inline text, and which is code, HTML or markup.

It follows CommonMark: block quotes and list items are containers, and each line is first matched against the open ones.
"""

import re
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from timeloom.core.citations.markdown.grammar import TAG

MAX_DEPTH: Final = 64
"""Deepest nesting of block quotes and list items. A smaller limit misreads deep outlines; a larger one makes each line
of hostile text cost more."""

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
"""Longest text that ends an HTML block; searches in consecutive pieces overlap by this much."""

_FENCE: Final = re.compile(r"`{3,}+(?![^`]*+`)|~{3,}+")
_HEADING: Final = re.compile(r"#{1,6}+(?=[ \t]|\Z)")
_UNDERLINE: Final = re.compile(r"(?:=++|-++)[ \t]*+\Z")
_RULE: Final = re.compile(r"(?>(?:\*[ \t]*+){3,}|(?:_[ \t]*+){3,}|(?:-[ \t]*+){3,})\Z")
_BULLET: Final = re.compile(r"(?:[*+\-]|([0-9]{1,9})[.)])(?=[ \t]|\Z)")
_TITLE_STARTS: Final = ('"', "'", "(")


class Quote(msgspec.Struct, frozen=True, gc=False):
    """An open block quote."""


class Item(msgspec.Struct, frozen=True, gc=False):
    """An open list item: the indentation of its content, and whether it has no content yet."""

    indent: int
    empty: bool


class Fence(msgspec.Struct, frozen=True, gc=False):
    """An open fenced code block."""

    marker: str


class Html(msgspec.Struct, frozen=True, gc=False):
    """An open HTML block; it ends at a match of the pattern, or at a blank line if there is none."""

    end: re.Pattern[str] | None


class Line(msgspec.Struct, frozen=True, gc=False):
    """Kind of a line: inline text from `start` to `end`, or no visible text.

    A line that begins like the title of the preceding definition has the kind `title`, which may still prove wrong.
    `decided` is whether every longer line with this beginning has the same kind, given that it contains a citation
    token.
    """

    kind: Literal["new", "continued", "title", "heading", "raw"]
    start: int = 0
    end: int = 0
    decided: bool = True


_RAW: Final = Line("raw")
_OPEN_ENDED: Final = Line("raw", decided=False)


class Blocks:
    """The open blocks at one position of a document."""

    def __init__(self) -> None:
        self._containers: list[Quote | Item] = []
        self._leaf: Fence | Html | Literal["paragraph", "indented"] | None = None
        self._after_blank = False

    def copy(self) -> "Blocks":
        """Return a copy that can be advanced independently."""
        other = Blocks()
        other._containers = self._containers.copy()
        other._leaf = self._leaf
        other._after_blank = self._after_blank
        return other

    @property
    def html_end(self) -> re.Pattern[str] | None:
        """Pattern that ends the open HTML block; None if there is none or a blank line ends it."""
        return self._leaf.end if isinstance(self._leaf, Html) else None

    def end_leaf(self) -> None:
        """End the open paragraph, code or HTML block."""
        self._leaf = None

    def take(self, text: str, is_definition: Callable[[], bool]) -> Line:
        """Return the kind of the next line; `is_definition` tells if the open paragraph holds only link definitions."""
        line = _Cursor(text)
        if line.blank and self._after_blank:
            # The first blank line closed the blocks already; later ones must not each traverse a deep list.
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
            # The paragraph consisted of definitions only, so there is none to continue.
            self._cut(line)
        line.inside = self._leaf == "paragraph" and line.depth == len(self._containers)
        return self._start(line)

    def _match(self, line: "_Cursor") -> None:
        """Skip the markers of the containers that the line continues."""
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
        """Return whether the line belongs to the open code or HTML block; the line may also end that block."""
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
        """Return the line if its kind is known, or whether it opened a container whose content comes next."""
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
        """Close the blocks that the line does not continue."""
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
        # Five or more spaces are one space followed by indented code.
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
    """Position in a line, in characters and columns, and the number of open containers that the line continues."""

    __slots__ = ("_at", "_column", "depth", "indent", "inside", "next", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0
        self._column = 0
        self.depth = 0
        self.inside = False  # whether a block that starts here interrupts a paragraph of the innermost container
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
        """Skip that many columns of the line; a tab may be skipped in part."""
        while columns > 0 and self._at < len(self.text):
            width = 4 - self._column % 4 if self.text[self._at] == "\t" else 1
            self._at += width <= columns
            self._column += min(width, columns)
            columns -= width
        self._look()

    def skip_quote(self) -> None:
        """Skip a `>` and the optional space after it."""
        self.skip(self.indent + 1)
        if self.indent:
            self.skip(1)

    def _look(self) -> None:
        """Find the next character that is not a space, and its distance in columns."""
        column = self._column
        at = self._at
        while (char := self.text[at : at + 1]) in (" ", "\t"):
            column += 4 - column % 4 if char == "\t" else 1
            at += 1
        self.next = at
        self.indent = column - self._column
