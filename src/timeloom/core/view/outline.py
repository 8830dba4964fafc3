"""Outlines long texts: line ranges, each with the excerpts that tell it apart from the rest."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import Final

import msgspec

from timeloom.core.view.turn_index import fold_line

RANGE_CHARS: Final = 8_000
"""Characters of a range. One read shows three of them; smaller ranges make longer outlines."""

MAX_RANGES: Final = 16
"""Maximum number of ranges of a text; the ranges of a longer text are larger."""

EXCERPT_CHARS: Final = 72
"""Length of an excerpt. Longer ones make an outline too large to read at once."""

COMMON: Final = 10**30
"""The commonness of words that tell nothing."""

# After a backslash, the first letter belongs to an escape such as `\\n` in JSON.
_WORD: Final = re.compile(r"(?<!\\)[^\W_][\w.:/@#+=-]{0,63}")
_DIGITS: Final = re.compile(r"\d+")
_RIVALS: Final = 4
"""How many rare words are examined for each excerpt, since several may share one line."""


class TextRange(msgspec.Struct, frozen=True):
    """A range of a text: its characters, and the lines in which they are, counted from 1.

    `symbol` is the place of its first character in its line, counted from 1.
    """

    start: int
    end: int
    first_line: int
    last_line: int
    symbol: int = 1

    @property
    def words(self) -> str:
        """How the range is named to a reader, in the terms of a read."""
        if self.symbol > 1:
            return f"line {self.first_line} from symbol {self.symbol}"
        return (
            f"lines {self.first_line}-{self.last_line}"
            if self.last_line > self.first_line
            else f"line {self.first_line}"
        )


class Excerpts(msgspec.Struct, frozen=True):
    """The most telling excerpts of a range, the rarest first, and how common its rarest word is."""

    texts: tuple[str, ...]
    commonness: int


class WordCounts:
    """How often words occur in some texts, and how often their shapes do: words in which all numbers are alike.

    A word is rare if both are: numbers differ in every line of a table and still tell nothing.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._words = Counter[str]()
        for text in texts:
            self._words.update(_WORD.findall(text.casefold()))
        self._shapes = Counter[str]()
        self._known: dict[str, int] = {}
        for word, count in self._words.items():
            self._shapes[_DIGITS.sub("0", word)] += count

    def commonness(self, word: str) -> int:
        """Return how common the word is.

        Parts of words, ids of turns, and words that are very short or have no letters count as common.
        """
        if (known := self._known.get(word)) is None:
            known = self._known[word] = self._compute(word)
        return known

    def _compute(self, word: str) -> int:
        folded = word.casefold()
        shape = _DIGITS.sub("0", folded)
        if not self._words[folded]:
            return COMMON
        tells_little = len(folded) < 3 or "turn_" in folded or not any(map(str.isalpha, shape))
        return COMMON if tells_little else self._words[folded] ** 2 * self._shapes[shape]


def split_ranges(text: str, chars: int = RANGE_CHARS) -> list[TextRange]:
    """Return ranges of about `chars` characters: complete lines, or parts of a line that is longer."""
    return list(_split(text, max(chars, -(-len(text) // MAX_RANGES))))


def find_excerpts(text: str, within: TextRange, counts: WordCounts, most: int, chars: int = EXCERPT_CHARS) -> Excerpts:
    """Return at most `most` excerpts of that range, each of about `chars` characters around a rare word."""
    found = [(counts.commonness(one[0]), one.start()) for one in _WORD.finditer(text, within.start, within.end)]
    rarest = nsmallest(most * _RIVALS, found)
    shown: list[tuple[int, int]] = []
    for _, at in rarest:
        if len(shown) < most and not any(start <= at < end for start, end in shown):
            shown.append(_excerpt_span(text, at, chars))
    return Excerpts(tuple(_excerpt(text, *span) for span in shown), rarest[0][0] if rarest else COMMON)


def _split(text: str, chars: int) -> Iterator[TextRange]:
    start, line, symbol = 0, 1, 1
    while start < len(text):
        limit = min(len(text), start + chars)
        cut = text.rfind("\n", start, limit) + 1 if limit < len(text) else limit
        end = cut if cut > start else limit
        breaks = text.count("\n", start, end)
        last = line + breaks - (text[end - 1] == "\n")
        yield TextRange(start, end, line, last, symbol)
        symbol = 1 if text[end - 1] == "\n" else end - text.rfind("\n", 0, end)
        start, line = end, line + breaks


def _excerpt_span(text: str, at: int, chars: int) -> tuple[int, int]:
    line_start, line_end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    lead = chars // 3
    start = line_start if at - line_start <= lead else at - lead
    return start, min(len(text) if line_end < 0 else line_end, start + chars)


def _excerpt(text: str, start: int, end: int) -> str:
    begins = "" if start == 0 or text[start - 1] == "\n" else "…"
    ends = "" if end == len(text) or text[end] == "\n" else "…"
    return f"{begins}{fold_line(text[start:end])}{ends}"


def join_excerpts(excerpts: Sequence[str]) -> str:
    """Return the excerpts on one line."""
    return " | ".join(excerpts)
