"""Grammar of citation tokens such as `[[S:1,3-5]]`.

A token may have a small `s`, any dash in a range, and the `~` by which prompts escape tokens in foreign text: models
copy all three.
"""

import re
from typing import Final, Protocol

import msgspec

from timeloom.core.paths.selection import MAX_SID

MAX_TOKEN_SIDS: Final = 100
"""Most ids in one token. A smaller limit refuses honest ranges; a larger one lets few characters become pages of
links."""

MAX_TOKEN_CHARS: Final = 256
"""Longest token. A smaller limit refuses long lists; a larger one holds back more text that only looks like a token."""

_LONGEST: Final = MAX_TOKEN_CHARS - len("[~[S:]]")

_DASHES: Final = "\u2010\u2011\u2012\u2013\u2014\u2212"
"""Dashes that are written for a hyphen: hyphens, figure, en and em dash, and the minus sign."""

_LISTED: Final = rf"[0-9, \-{_DASHES}]"
TOKEN: Final = re.compile(rf"\[~?\[[Ss]:{_LISTED}{{1,{_LONGEST}}}+\]\]")
"""Matches all tokens and a few texts that only look like one; `parse_sids` tells them apart."""

_UNFINISHED: Final = re.compile(rf"\[~?(?:\[(?:[Ss](?::{_LISTED}{{0,{_LONGEST}}}+\]?)?)?)?\Z")
_NUMBER: Final = rf"([1-9][0-9]{{0,{len(str(MAX_SID)) - 1}}})"
_ITEM: Final = re.compile(rf" *+{_NUMBER} *+(?:[\-{_DASHES}] *+{_NUMBER} *+)?")


class Citation(msgspec.Struct, frozen=True, gc=False):
    """A token from `start` to `end` of the input text.

    `in_link` is whether it is part of a link's text, `in_html` whether it is in an HTML block of a Markdown text.
    """

    start: int
    end: int
    sids: tuple[int, ...]
    in_link: bool = False
    in_html: bool = False


class CitationFinder(Protocol):
    """Finds the citations in a stream of one text format."""

    @property
    def settled(self) -> int:
        """Offset up to which all citations are known."""
        ...

    def feed(self, text: str) -> list[Citation]:
        """Return the citations that this text completed, in order."""
        ...

    def close(self) -> list[Citation]:
        """Return the citations that the end of the text completed."""
        ...


def parse_sids(token: str) -> tuple[int, ...]:
    """Return the ids that a match of `TOKEN` names, each once, in order; empty if it is not a citation."""
    sids: dict[int, None] = {}
    count = 0
    for item in token[token.index(":") + 1 : -len("]]")].split(","):
        shape = _ITEM.fullmatch(item)
        if shape is None:
            return ()
        first = int(shape[1])
        last = int(shape[2] or first)
        count += last - first + 1
        if last < first or count > MAX_TOKEN_SIDS:
            return ()
        sids.update(dict.fromkeys(range(first, last + 1)))
    return tuple(sids)


def find_unfinished(text: str) -> int:
    """Return where an incomplete token begins at the end of the text; the text's length if there is none."""
    tail = text[-MAX_TOKEN_CHARS:]
    found = _UNFINISHED.search(tail)
    return len(text) - len(tail) + found.start() if found else len(text)


def find_citations_in_text(text: str, offset: int, *, in_link: bool = False, in_html: bool = False) -> list[Citation]:
    """Return all citations in a text that starts at this offset and contains no markup that hides tokens."""
    return [
        Citation(offset + token.start(), offset + token.end(), sids, in_link, in_html)
        for token in TOKEN.finditer(text)
        if (sids := parse_sids(token[0]))
    ]
