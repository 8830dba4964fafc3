"""Parts of a prompt: runs of entries that stay one piece once a model was asked, each with its text made once."""

import hashlib
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

import msgspec

from timeloom.core.payload import BlobRef, ref_of
from timeloom.core.render.entries.entry_text import EntryText
from timeloom.core.render.segments import RenderedSegment
from timeloom.core.tokens import estimate


class Section(IntEnum):
    """The sections of the part that is cached, in their order."""

    NONE = 0
    COMPACTED = 1
    PRUNED = 2
    INTACT = 3


TITLES: Final = {
    Section.COMPACTED: "[COMPACTED PRIOR CONVERSATION MEMORY]\n\n",
    Section.PRUNED: "PRUNED PRIOR TURNS\n\n",
    Section.INTACT: "RECENT INTACT TURNS\n(oldest first; the last turn here is the CURRENT TURN)\n\n",
}
TITLE_TOKENS: Final = {section: estimate(title) for section, title in TITLES.items()}


class Item(msgspec.Struct, frozen=True):
    """An entry in sight, or what stands for one: its text, the section it asks for, and whether a part ends with it."""

    seq: int
    text: EntryText
    section: Section = Section.INTACT
    seals: bool = False


class Part(msgspec.Struct):
    """Items that follow each other; `enters` is the section before the first, `leaves` the one after the last."""

    items: list[Item]
    enters: Section = Section.NONE
    leaves: Section = Section.NONE
    tokens: int = 0
    made: tuple[RenderedSegment, ...] | None = None

    @property
    def first_seq(self) -> int:
        """The seq of the first item."""
        return self.items[0].seq

    @property
    def last_seq(self) -> int:
        """The seq of the last item."""
        return self.items[-1].seq

    @property
    def is_sealed(self) -> bool:
        """Whether nothing is added to it any more."""
        return self.items[-1].seals

    def append(self, item: Item) -> None:
        """Adds the next item."""
        self.items.append(item)
        self._count(item)
        self.made = None

    def enter(self, section: Section) -> None:
        """Begins in that section and counts its items again."""
        self.enters = self.leaves = section
        self.tokens, self.made = 0, None
        for item in self.items:
            self._count(item)

    def segments(self) -> tuple[RenderedSegment, ...]:
        """Its text, cut only by what is attached; made once."""
        if self.made is None:
            self.made = tuple(_segments(self.items, self.enters))
        return self.made

    def _count(self, item: Item) -> None:
        if not item.text.is_empty:
            self.tokens += item.text.tokens
            if item.section > self.leaves:
                self.leaves = item.section
                self.tokens += TITLE_TOKENS[item.section]


def partition(items: Iterable[Item]) -> list[Part]:
    """The items in parts, each ended by an item that seals."""
    parts: list[Part] = []
    for item in items:
        if parts and not parts[-1].is_sealed:
            parts[-1].items.append(item)
        else:
            parts.append(Part([item]))
    return parts


def chained(before: bytes, segments: Sequence[RenderedSegment]) -> bytes:
    """The hash of all segments up to these, from the hash of those before them."""
    digest = hashlib.sha256(before)
    for segment in segments:
        if segment.data is None:
            piece = segment.text.encode("utf-8", "surrogatepass")
        else:
            data = segment.data
            ref = data if isinstance(data, BlobRef) else ref_of(data)
            piece = f"{segment.mime} {ref.sha256}".encode()
        # Lengths first, so that no two lists of segments have the same bytes.
        digest.update(f"{len(piece)} ".encode())
        digest.update(piece)
    return digest.digest()


def _segments(items: Sequence[Item], section: Section) -> Iterable[RenderedSegment]:
    texts: list[str] = []
    for item in items:
        shown = item.text
        if shown.is_empty:
            continue
        if item.section > section:
            section = item.section
            texts.append(TITLES[section])
        texts.append(shown.text)
        if shown.data is not None:
            if text := "".join(texts):
                yield RenderedSegment(text)
            texts.clear()
            yield RenderedSegment(data=shown.data, mime=shown.mime)
    if texts:
        yield RenderedSegment("".join(texts))
