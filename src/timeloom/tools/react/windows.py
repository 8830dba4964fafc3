"""Windows: the part of a text that a read shows, with its line numbers and what is left out."""

from collections.abc import Callable
from typing import Final

import msgspec

from timeloom.core.render.foreign_text.fence import BAR, fence

CountTokens = Callable[[str], int]

_SHRINKINGS: Final = 12
"""Times a window is made smaller to fit the tokens; each time it loses at least a tenth, so this is ample."""


class Bounds(msgspec.Struct, frozen=True):
    """The most that a window shows."""

    symbols: int
    tokens: int


class Span(msgspec.Struct, frozen=True):
    """The lines asked for, counted from 1; the first begins at its symbol `symbol_start`, counted from 1."""

    line_start: int = 1
    line_count: int | None = None
    symbol_start: int = 1


class Window(msgspec.Struct, frozen=True):
    """A part of a text, or all of it.

    `text` has the lines themselves. `numbered` is how a part is shown, each line behind its number.
    `first` to `last` are the lines that are fully in sight (`last` is below `first` where none is). `cut_symbols` are
    those shown of the line after `last`, which was cut. `more` is what to ask for to go on.
    """

    text: str
    numbered: str
    tokens: int
    total_lines: int
    first: int
    last: int
    cut_symbols: int = 0
    more: Span | None = None

    @property
    def whole(self) -> bool:
        """Whether it is all of the text, shown as it is."""
        return not self.numbered

    @property
    def lines(self) -> str:
        """The lines fully in sight, of how many."""
        return _lines_of(self.first, self.last, self.total_lines)


def whole_or_window(text: str, bounds: Bounds, count_tokens: CountTokens, span: Span | None = None) -> Window:
    """The text itself where it is within the bounds and no part was asked for, else as much as is."""
    lines = split_lines(text)
    if span is None and len(text) <= bounds.symbols and (tokens := count_tokens(text)) <= bounds.tokens:
        return Window(text, "", tokens, len(lines), 1, len(lines))
    symbols = bounds.symbols
    for _ in range(_SHRINKINGS):
        window = _window(lines, span or Span(), symbols, count_tokens)
        if window.tokens <= bounds.tokens:
            return window
        symbols = min(symbols * bounds.tokens // window.tokens, symbols * 9 // 10)
    return _window(lines, span or Span(), 0, count_tokens)


def split_lines(text: str) -> list[str]:
    """The lines without their line feeds; only line feeds end lines, and what follows the last is one if not empty."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _window(lines: list[str], span: Span, symbols: int, count_tokens: CountTokens) -> Window:
    start = min(span.line_start, len(lines) + 1)
    stop = len(lines) if span.line_count is None else min(len(lines), start + span.line_count - 1)
    left, taken = symbols, list[str]()
    skipped, last, cut = span.symbol_start - 1, start - 1, 0
    for number in range(start, stop + 1):
        line = lines[number - 1][skipped:]
        left -= len(f"{number}{BAR} ") + 1
        # Something is always shown, or whoever reads on would come here again.
        room = max(left, 1) if not taken else left
        if len(line) > room:
            cut = max(0, room)
            taken += [line[:cut]] if cut else []
            break
        taken.append(line + "\n")
        left, last, skipped = left - len(line), number, 0
    more = None if last == stop else _rest(span, last + 1, skipped + cut, stop)
    # A line of which only the end is in sight is not fully so.
    first = start + 1 if span.symbol_start > 1 and last >= start else start
    text = "".join(taken)
    begun = f"; line {start} is shown from its symbol {span.symbol_start} on" if first > start else ""
    heading = f"[READ] {_lines_of(first, last, len(lines))}{begun}{_cut_words(last + 1, skipped, cut)}\n"
    numbered = heading + fence(text, first_line=start)
    return Window(text, numbered, count_tokens(numbered), len(lines), first, last, cut, more)


def _rest(span: Span, line: int, skipped: int, stop: int) -> Span:
    return Span(line, None if span.line_count is None else stop - line + 1, skipped + 1)


def _lines_of(first: int, last: int, total: int) -> str:
    return f"[{first}-{last}]/{total}" if last >= first else f"[]/{total}"


def _cut_words(line: int, skipped: int, cut: int) -> str:
    return f"; line {line} is cut: its symbols {skipped + 1}-{skipped + cut} are shown" if cut else ""
