"""Citation tokens: the grammar of `[[S:1,3-5]]`, wherever it stands."""

import re
from typing import Final, Protocol

import msgspec

MAX_SID: Final = 999_999
"""Largest source id in a token. Smaller would leave rows of a large pool uncitable; larger admits ids no pool has."""

MAX_TOKEN_SIDS: Final = 100
"""Most ids one token names. Smaller would refuse honest ranges; larger lets a few characters become pages of links."""

MAX_TOKEN_CHARS: Final = 256
"""Longest token. Smaller would refuse long lists; larger holds back more of what merely looks like a token."""

_LONGEST: Final = MAX_TOKEN_CHARS - len("[[S:]]")

TOKEN: Final = re.compile(rf"\[\[S:[0-9, \-]{{1,{_LONGEST}}}+\]\]")
"""Everything that is a token, and a few things that only look like one: `sids_of` tells them apart."""

_UNFINISHED: Final = re.compile(rf"\[(?:\[(?:S(?::[0-9, \-]{{0,{_LONGEST}}}+\]?)?)?)?\Z")
_NUMBER: Final = rf"([1-9][0-9]{{0,{len(str(MAX_SID)) - 1}}})"
_ITEM: Final = re.compile(rf" *+{_NUMBER} *+(?:- *+{_NUMBER} *+)?")


class Citation(msgspec.Struct, frozen=True, gc=False):
    """A token at `start` up to `end` in the text that was fed; `in_link` says that it is part of a link's text."""

    start: int
    end: int
    sids: tuple[int, ...]
    in_link: bool = False


class CitationFinder(Protocol):
    """Finds the citations of one text format in a stream."""

    @property
    def settled(self) -> int:
        """The offset up to which it is known which tokens are citations."""
        ...

    def feed(self, text: str) -> list[Citation]:
        """The citations that this text settled, in order."""
        ...

    def close(self) -> list[Citation]:
        """The citations that the end of the text settled."""
        ...


def sids_of(token: str) -> tuple[int, ...]:
    """The ids that a match of `TOKEN` names, each once, in its order; none if it is not a citation."""
    sids: dict[int, None] = {}
    count = 0
    for item in token[len("[[S:") : -len("]]")].split(","):
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


def unfinished(text: str) -> int:
    """Where the beginning of a token stands at the end of the text; its length if there is none."""
    tail = text[-MAX_TOKEN_CHARS:]
    found = _UNFINISHED.search(tail)
    return len(text) - len(tail) + found.start() if found else len(text)


def citations_in(text: str, offset: int, *, in_link: bool = False) -> list[Citation]:
    """All citations in a text that starts at this offset and in which nothing hides a token."""
    return [
        Citation(offset + token.start(), offset + token.end(), sids, in_link)
        for token in TOKEN.finditer(text)
        if (sids := sids_of(token[0]))
    ]
