"""Splits streamed Markdown into blocks."""

import re
from typing import Final, Literal

import msgspec

from timeloom.core.citations.markdown.line_markers import (
    FENCE,
    HEADING,
    LIST_ITEM,
    MAX_MARKER_INDENT,
    RULE,
    closes_fence,
)

MAX_LIVE_CHARS: Final = 4_000
"""Maximum length of the live block. A larger value slows down every redraw of a long block."""

MAX_ITEM_INDENT: Final = 1
"""Maximum spaces before a list item of the top level; further indented items belong to the item above."""

_INDENTED: Final = re.compile(r" {2,}|\t")

Kind = Literal["none", "prose", "quote", "item", "fence"]


class MarkdownBlock(msgspec.Struct, frozen=True):
    """One block or list item; `gap`: an empty line precedes it; `number`: its number in an ordered list."""

    text: str
    gap: bool = False
    number: int | None = None


class MarkdownSplitter:
    """Splits Markdown into blocks: returns each block once it is complete, and shows the incomplete one as `live`."""

    def __init__(self) -> None:
        self._partial: list[str] = []
        self._lines: list[str] = []
        self._kind: Kind = "none"
        self._marks = ""
        self._number: int | None = None
        self._gap = False
        self._blank = False
        self._done: list[MarkdownBlock] = []

    def feed(self, text: str) -> list[MarkdownBlock]:
        """Add text and return the blocks that it completed."""
        *whole, rest = text.split("\n")
        for line in whole:
            self._add_line("".join((*self._partial, line)))
            self._partial.clear()
        if rest:
            self._partial.append(rest)
        return self._take_done()

    def close(self) -> list[MarkdownBlock]:
        """End the text and return the remaining blocks."""
        if self._partial:
            self._add_line("".join(self._partial))
            self._partial.clear()
        self._flush()
        return self._take_done()

    @property
    def live(self) -> MarkdownBlock | None:
        """The incomplete block; only the end of a long one."""
        lines = [*self._lines, *(["".join(self._partial)] if self._partial else [])]
        if not lines:
            return None
        kept: list[str] = []
        chars = 0
        for line in reversed(lines):
            chars += len(line) + 1
            if chars > MAX_LIVE_CHARS and kept:
                break
            kept.append(line[-MAX_LIVE_CHARS:])
        if self._kind == "fence" and len(kept) < len(lines):
            kept.append(self._lines[0])
        return MarkdownBlock("\n".join(reversed(kept)), self._gap, self._number)

    def _take_done(self) -> list[MarkdownBlock]:
        done, self._done = self._done, []
        return done

    def _add_line(self, line: str) -> None:
        if self._marks:
            self._lines.append(line)
            if closes_fence(line.strip(), self._marks):
                self._marks = ""
                if self._kind == "fence":
                    self._flush()
            return
        if not line.strip():
            self._add_blank_line(line)
            return
        if self._is_block_start(line):
            self._start_block(line)
        else:
            self._lines += [""] * self._blank
            self._blank = False
            self._lines.append(line)
        fence = FENCE.match(line.lstrip()) if self._kind == "item" else _match_marker(FENCE, line)
        if fence and self._kind in ("fence", "item"):
            self._marks = fence[0]
        elif _match_marker(HEADING, line) and self._kind == "prose":
            self._flush()

    def _add_blank_line(self, line: str) -> None:
        if self._kind == "item":
            # The next line may still belong to the item.
            self._blank = True
            return
        self._flush()
        self._blank = True

    def _is_block_start(self, line: str) -> bool:
        """Return whether a new block begins at this line, which is not blank."""
        if self._kind == "none":
            return True
        if self._kind == "item":
            return not _INDENTED.match(line) and (self._blank or bool(_block_kind(line)))
        starts = _block_kind(line)
        if self._kind == "quote":
            return bool(starts) and starts != "quote"
        # A line of dashes under prose makes it a heading.
        return bool(starts) and not (set(line.strip()) <= {"-"} and starts != "item")

    def _start_block(self, line: str) -> None:
        was, number, blank = self._kind, self._number, self._blank
        self._flush()
        self._gap = self._gap or blank
        self._blank = False
        self._kind = _block_kind(line) or "prose"
        item = _match_marker(LIST_ITEM, line, MAX_ITEM_INDENT) if self._kind == "item" else None
        if item and item[1]:
            self._number = number + 1 if was == "item" and number is not None else int(item[1])
        else:
            self._number = None
        self._lines.append(line)

    def _flush(self) -> None:
        if self._lines:
            self._done.append(MarkdownBlock("\n".join(self._lines), self._gap, self._number))
        self._lines = []
        self._kind, self._marks = "none", ""
        self._gap, self._blank = self._blank, False


def _block_kind(line: str) -> Kind | None:
    """Return the kind of block that this line starts even without a blank line before it; None for plain text."""
    if _match_marker(FENCE, line):
        return "fence"
    if _match_marker(HEADING, line) or _match_marker(RULE, line):
        return "prose"
    if _match_marker(LIST_ITEM, line, MAX_ITEM_INDENT):
        return "item"
    return "quote" if line.lstrip(" ").startswith(">") else None


def _match_marker(marker: re.Pattern[str], line: str, max_indent: int = MAX_MARKER_INDENT) -> re.Match[str] | None:
    """Match the marker after at most that many spaces."""
    indent = len(line) - len(line.lstrip(" "))
    return marker.match(line, indent) if indent <= max_indent else None
