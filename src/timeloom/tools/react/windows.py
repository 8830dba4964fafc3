"""Cuts the part of a text that a read shows, with line numbers and where to continue."""

from collections.abc import Callable
from typing import Final

import msgspec

from timeloom.core.render.foreign_text.fence import BAR, fence

CountTokens = Callable[[str], int]

_SHRINKINGS: Final = 12
"""Attempts to shrink a window to its token limit. Each attempt removes at least a tenth, so this is ample."""


class WindowBounds(msgspec.Struct, frozen=True):
    """The size limits of a window."""

    symbols: int
    tokens: int


class LineSpan(msgspec.Struct, frozen=True):
    """The requested lines, counted from 1; the first begins at its symbol `symbol_start`, counted from 1."""

    line_start: int = 1
    line_count: int | None = None
    symbol_start: int = 1


class ReadWindow(msgspec.Struct, frozen=True):
    """A part of a text, or all of it.

    `text` contains the lines themselves. `numbered` is the display form of a part, each line behind its number. `first`
    to `last` are the lines shown in full; `last` is below `first` if there is none. `cut_symbols` is the number of
    symbols shown of the line after `last`, which was cut. `more` is the span to request next.
    """

    text: str
    numbered: str
    tokens: int
    total_lines: int
    first: int
    last: int
    cut_symbols: int = 0
    more: LineSpan | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the window is the complete text without line numbers."""
        return not self.numbered

    @property
    def lines(self) -> str:
        """The range of fully shown lines and the total, such as `[1-20]/40`."""
        return _format_range(self.first, self.last, self.total_lines)


def cut_window(text: str, bounds: WindowBounds, count_tokens: CountTokens, span: LineSpan | None = None) -> ReadWindow:
    """Return the complete text if it fits and no span was requested; otherwise as much of the span as fits."""
    lines, ends_line = split_lines(text), text.endswith("\n")
    if span is None and len(text) <= bounds.symbols and (tokens := count_tokens(text)) <= bounds.tokens:
        return ReadWindow(text, "", tokens, len(lines), 1, len(lines))
    symbols = bounds.symbols
    for _ in range(_SHRINKINGS):
        window = _cut_lines(lines, span or LineSpan(), symbols, count_tokens, ends_line=ends_line)
        if window.tokens <= bounds.tokens:
            return window
        symbols = min(symbols * bounds.tokens // window.tokens, symbols * 9 // 10)
    return _cut_lines(lines, span or LineSpan(), 0, count_tokens, ends_line=ends_line)


def split_lines(text: str) -> list[str]:
    """Return the lines without line feeds. Only line feeds end lines, and an empty rest is not a line."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _cut_lines(
    lines: list[str], span: LineSpan, symbols: int, count_tokens: CountTokens, *, ends_line: bool
) -> ReadWindow:
    start = min(span.line_start, len(lines) + 1)
    stop = len(lines) if span.line_count is None else min(len(lines), start + span.line_count - 1)
    left, taken = symbols, list[str]()
    skipped, last, cut = span.symbol_start - 1, start - 1, 0
    for number in range(start, stop + 1):
        line = lines[number - 1][skipped:]
        left -= len(f"{number}{BAR} ") + 1
        # At least one symbol is shown; otherwise a caller that follows `more` would loop.
        room = max(left, 1) if not taken else left
        if len(line) > room:
            cut = max(0, room)
            taken += [line[:cut]] if cut else []
            break
        taken.append(line if number == len(lines) and not ends_line else line + "\n")
        left, last, skipped = left - len(line), number, 0
    more = None if last == stop else _remaining_span(span, last + 1, skipped + cut, stop)
    # A line that begins after its first symbol is not shown in full.
    first = start + 1 if span.symbol_start > 1 and last >= start else start
    text = "".join(taken)
    begun = f"; line {start} is shown from its symbol {span.symbol_start} on" if first > start else ""
    heading = f"[READ] {_format_range(first, last, len(lines))}{begun}{_cut_note(last + 1, skipped, cut)}\n"
    numbered = heading + fence(text, first_line=start)
    return ReadWindow(text, numbered, count_tokens(numbered), len(lines), first, last, cut, more)


def _remaining_span(span: LineSpan, line: int, skipped: int, stop: int) -> LineSpan:
    return LineSpan(line, None if span.line_count is None else stop - line + 1, skipped + 1)


def _format_range(first: int, last: int, total: int) -> str:
    return f"[{first}-{last}]/{total}" if last >= first else f"[]/{total}"


def _cut_note(line: int, skipped: int, cut: int) -> str:
    return f"; line {line} is cut: its symbols {skipped + 1}-{skipped + cut} are shown" if cut else ""
