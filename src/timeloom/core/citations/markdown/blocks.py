"""Parses Markdown's block structure by line: which part is inline text, and which is code, HTML or markup.

It follows CommonMark: block quotes and list items are containers, and each line is first matched against the open ones.
"""

import re
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from timeloom.core.citations.markdown.grammar import TAG
from timeloom.core.citations.markdown.line_markers import (
    FENCE,
    HEADING,
    LIST_ITEM,
    MAX_MARKER_INDENT,
    RULE,
    closes_fence,
)

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

_UNDERLINE: Final = re.compile(r"(?:=++|-++)[ \t]*+\Z")
_TITLE_STARTS: Final = ('"', "'", "(")


class BlockQuote(msgspec.Struct, frozen=True, gc=False):
    """An open block quote."""


class ListItem(msgspec.Struct, frozen=True, gc=False):
    """An open list item: the indentation of its content, and whether it has no content yet."""

    indent: int
    empty: bool


class FencedCode(msgspec.Struct, frozen=True, gc=False):
    """An open fenced code block."""

    marker: str


class HtmlBlock(msgspec.Struct, frozen=True, gc=False):
    """An open HTML block; it ends at a match of the pattern, or at a blank line if there is none."""

    end: re.Pattern[str] | None


class ClassifiedLine(msgspec.Struct, frozen=True, gc=False):
    """Kind of a line: inline text from `start` to `end`, HTML from `start`, or no visible text.

    A line that begins like the title of the preceding definition has the kind `title`, which may still prove wrong.
    `decided` is whether every longer line with this beginning has the same kind, given that it contains a citation
    token.
    """

    kind: Literal["new", "continued", "title", "heading", "html", "raw"]
    start: int = 0
    end: int = 0
    decided: bool = True


_RAW: Final = ClassifiedLine("raw")
_OPEN_ENDED: Final = ClassifiedLine("raw", decided=False)


class BlockParser:
    """The open blocks at one position of a document."""

    def __init__(self) -> None:
        self._containers: list[BlockQuote | ListItem] = []
        self._leaf: FencedCode | HtmlBlock | Literal["paragraph", "indented"] | None = None
        self._after_blank = False

    def copy(self) -> "BlockParser":
        """Return a copy that can be advanced independently."""
        other = BlockParser()
        other._containers = self._containers.copy()
        other._leaf = self._leaf
        other._after_blank = self._after_blank
        return other

    @property
    def html_end(self) -> re.Pattern[str] | None:
        """Pattern that ends the open HTML block; None if there is none or a blank line ends it."""
        return self._leaf.end if isinstance(self._leaf, HtmlBlock) else None

    def end_leaf(self) -> None:
        """End the open paragraph, code or HTML block."""
        self._leaf = None

    def classify_line(self, text: str, is_definition: Callable[[], bool]) -> ClassifiedLine:
        """Return the kind of the next line; `is_definition` tells if the open paragraph holds only link definitions."""
        line = _LineCursor(text)
        if line.blank and self._after_blank:
            # The first blank line closed the blocks already; later ones must not each traverse a deep list.
            return _RAW
        self._after_blank = line.blank
        self._match_containers(line)
        leaf = self._leaf
        if line.depth == len(self._containers) and leaf not in (None, "paragraph") and self._continues_leaf(line):
            return ClassifiedLine("html", line.next) if isinstance(leaf, HtmlBlock) else _RAW
        if self._leaf != "paragraph":
            self._close_unmatched(line)
        elif not line.blank and is_definition():
            if line.char in _TITLE_STARTS:
                return ClassifiedLine("title", line.next, len(line.text))
            # The paragraph consisted of definitions only, so there is none to continue.
            self._close_unmatched(line)
        line.inside = self._leaf == "paragraph" and line.depth == len(self._containers)
        return self._start_blocks(line)

    def _match_containers(self, line: "_LineCursor") -> None:
        """Skip the markers of the containers that the line continues."""
        for container in self._containers:
            if isinstance(container, BlockQuote):
                if line.indent > 3 or line.char != ">":
                    return
                line.skip_quote()
            else:
                if container.empty if line.blank else line.indent < container.indent:
                    return
                line.skip(container.indent)
                self._containers[line.depth] = ListItem(container.indent, empty=False)
            line.depth += 1

    def _continues_leaf(self, line: "_LineCursor") -> bool:
        """Return whether the line belongs to the open code or HTML block; the line may also end that block."""
        match self._leaf:
            case FencedCode(marker=marker):
                run = line.rest.rstrip(" \t")
                if line.indent <= MAX_MARKER_INDENT and closes_fence(run, marker):
                    self._leaf = None
                return True
            case HtmlBlock(end=end):
                stays = end is not None or not line.blank
                if not stays or (end and end.search(line.rest)):
                    self._leaf = None
                return stays
            case _:
                return line.blank or line.indent > 3

    def _start_blocks(self, line: "_LineCursor") -> ClassifiedLine:
        opened = True
        while opened:
            opened = False
            if line.blank:
                self._close_unmatched(line)
                return _RAW
            if line.indent > 3:
                if self._leaf == "paragraph":
                    break
                self._leaf = "indented"
                return _RAW
            outcome = self._open_block(line)
            if isinstance(outcome, ClassifiedLine):
                return outcome
            opened = outcome
        kind = "continued" if self._leaf == "paragraph" else "new"
        self._leaf = "paragraph"
        return ClassifiedLine(kind, line.next, len(line.text), decided=line.char != "<")

    def _open_block(self, line: "_LineCursor") -> ClassifiedLine | bool:
        """Return the line if its kind is known, or whether it opened a container whose content comes next."""
        match line.char:
            case ">":
                return self._open_quote(line)
            case "#":
                return self._read_heading(line)
            case "`" | "~":
                return self._open_fence(line)
            case "<":
                return self._open_html(line)
            case "=" | "-" | "*" | "_" | "+":
                return self._read_underline(line) or self._read_rule(line) or self._open_item(line)
            case _:
                return self._open_item(line)

    def _close_unmatched(self, line: "_LineCursor") -> None:
        """Close the blocks that the line does not continue."""
        del self._containers[line.depth :]
        self._leaf = None
        line.inside = False

    def _push_container(self, line: "_LineCursor", container: BlockQuote | ListItem) -> None:
        self._containers.append(container)
        line.depth += 1

    def _open_quote(self, line: "_LineCursor") -> bool:
        if line.depth >= MAX_DEPTH:
            return False
        self._close_unmatched(line)
        line.skip_quote()
        self._push_container(line, BlockQuote())
        return True

    def _open_item(self, line: "_LineCursor") -> bool:
        marker = LIST_ITEM.match(line.text, line.next)
        if marker is None or line.depth >= MAX_DEPTH:
            return False
        empty = not line.text[marker.end() :].strip(" \t")
        if line.inside and (empty or (marker[1] and int(marker[1]) != 1)):
            return False
        self._close_unmatched(line)
        indent = line.indent + len(marker[0])
        line.skip(indent)
        # Five or more spaces are one space followed by indented code.
        padding = 1 if empty or line.indent > 4 else line.indent
        line.skip(padding)
        self._push_container(line, ListItem(indent + padding, empty))
        return True

    def _read_heading(self, line: "_LineCursor") -> ClassifiedLine | bool:
        marker = HEADING.match(line.text, line.next)
        if marker is None:
            return False
        self._close_unmatched(line)
        content = line.text[marker.end() :].rstrip(" \t")
        shorter = content.rstrip("#")
        if not shorter or shorter[-1] in " \t":
            content = shorter
        return ClassifiedLine("heading", marker.end(), marker.end() + len(content), decided=False)

    def _open_fence(self, line: "_LineCursor") -> ClassifiedLine | bool:
        marker = FENCE.match(line.text, line.next)
        if marker is None:
            return False
        self._close_unmatched(line)
        self._leaf = FencedCode(marker[0])
        return _OPEN_ENDED

    def _open_html(self, line: "_LineCursor") -> ClassifiedLine | bool:
        for start, end in _HTML_STARTS:
            if start.match(line.text, line.next):
                self._close_unmatched(line)
                self._leaf = None if end and end.search(line.rest) else HtmlBlock(end)
                return ClassifiedLine("html", line.next, decided=False)
        if self._leaf == "paragraph" or not _LONE_TAG.match(line.text, line.next):
            return False
        self._leaf = HtmlBlock(None)
        return ClassifiedLine("html", line.next, decided=False)

    def _read_underline(self, line: "_LineCursor") -> ClassifiedLine | bool:
        if not line.inside or not _UNDERLINE.match(line.text, line.next):
            return False
        self._leaf = None
        return _RAW

    def _read_rule(self, line: "_LineCursor") -> ClassifiedLine | bool:
        if not RULE.match(line.text, line.next):
            return False
        self._close_unmatched(line)
        return _RAW


class _LineCursor:
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
