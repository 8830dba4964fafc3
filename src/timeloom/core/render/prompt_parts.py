"""Splits the cacheable prompt into parts that never change after a request has included them."""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from timeloom.core.payload import BlobRef, ref_of
from timeloom.core.render.entry_text import EntryText
from timeloom.core.render.section import Section, SectionTitles
from timeloom.core.render.segments import RenderedSegment

_WIDTH: Final = 4
"""How many numbers a part keeps of each item."""

_SECTION: Final = 3
_ENDS_PART: Final = 4
_HAS_DATA: Final = 8


class PromptItem(msgspec.Struct, frozen=True, gc=False):
    """A visible entry or a stub: its text, the section it belongs to, and whether a part ends with it."""

    seq: int
    text: EntryText
    section: Section = Section.INTACT
    ends_part: bool = False


class StoredPart(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A part as snapshots store it, with the hash of all segments up to its end."""

    numbers: list[int]
    segments: tuple[RenderedSegment, ...]
    section_before: Section
    section_after: Section
    tokens: int
    digest: bytes


class PromptPart:
    """Consecutive items with the section before the first (`section_before`) and after the last (`section_after`).

    A complete part keeps its segments and four numbers for each item, a tenth of the memory of the items. The items are
    made again from these if an entry changes the part.
    """

    __slots__ = ("_items", "_numbers", "_rendered", "_titles", "section_after", "section_before", "tokens")

    def __init__(self, items: Sequence[PromptItem], titles: SectionTitles) -> None:
        self._titles = titles
        self._items: list[PromptItem] | None = list(items)
        self._numbers = array("q", [number for item in items for number in _numbers(item)])
        self._rendered: tuple[RenderedSegment, ...] | None = None
        self.section_before = Section.NONE
        self.section_after = Section.NONE
        self.tokens = 0

    @classmethod
    def from_stored(cls, stored: StoredPart, titles: SectionTitles) -> "PromptPart":
        """Return the part that was stored."""
        part = cls((), titles)
        part._items, part._numbers, part._rendered = None, array("q", stored.numbers), stored.segments
        part.section_before, part.section_after = stored.section_before, stored.section_after
        part.tokens = stored.tokens
        return part

    def to_stored(self, digest: bytes) -> StoredPart:
        """Return the form in which snapshots store the part."""
        numbers = self._numbers.tolist()
        return StoredPart(numbers, self.segments(), self.section_before, self.section_after, self.tokens, digest)

    @property
    def items(self) -> list[PromptItem]:
        """The items in order."""
        if self._items is None:
            return list(_read_items(self._numbers, self.segments(), self.section_before, self._titles))
        return self._items

    @property
    def first_seq(self) -> int:
        """The seq of the first item."""
        return self._numbers[0]

    @property
    def last_seq(self) -> int:
        """The seq of the last item."""
        return self._numbers[-_WIDTH]

    @property
    def is_sealed(self) -> bool:
        """Whether the part is complete, so that no item is appended to it."""
        return bool(self._numbers[-1] & _ENDS_PART)

    def token_counts(self) -> Iterator[tuple[int, int]]:
        """Yield the seq and the estimated tokens of each item."""
        return zip(self._numbers[::_WIDTH], self._numbers[1::_WIDTH], strict=True)

    def tokens_between(self, first: int, last: int) -> int:
        """Return the estimated tokens of the items of that range, without section titles."""
        if first <= self.first_seq and self.last_seq <= last:
            return sum(self._numbers[1::_WIDTH])
        return sum(tokens for seq, tokens in self.token_counts() if first <= seq <= last)

    def append(self, item: PromptItem) -> None:
        """Append the next item."""
        self._items = self.items
        self._items.append(item)
        self._numbers.extend(_numbers(item))
        self._count(item)
        self._rendered = None

    def start_in(self, section: Section) -> None:
        """Set the section before the first item and count all items again."""
        self._items = self.items
        self.section_before = self.section_after = section
        self.tokens, self._rendered = 0, None
        for item in self._items:
            self._count(item)

    def segments(self) -> tuple[RenderedSegment, ...]:
        """Return the rendered segments, split only at attachments; they are rendered once."""
        if self._rendered is None:
            self._rendered = tuple(_render_items(self.items, self.section_before, self._titles))
            if self.is_sealed:
                self._items = None
        return self._rendered

    def _count(self, item: PromptItem) -> None:
        if not item.text.is_empty:
            self.tokens += item.text.tokens
            if item.section > self.section_after:
                self.section_after = item.section
                self.tokens += self._titles.tokens[item.section]


def split_into_parts(items: Iterable[PromptItem], titles: SectionTitles) -> list[PromptPart]:
    """Split the items into parts, each ended by an item that seals."""
    parts: list[PromptPart] = []
    for item in items:
        if parts and not parts[-1].is_sealed:
            parts[-1].append(item)
        else:
            parts.append(PromptPart([item], titles))
    return parts


def _numbers(item: PromptItem) -> tuple[int, int, int, int]:
    """Return the numbers that a part keeps of the item: seq, tokens, characters of its text, and its other fields."""
    text = item.text
    flags = item.section | item.ends_part * _ENDS_PART | (text.data is not None) * _HAS_DATA
    return item.seq, text.tokens, len(text.text), flags


def _read_items(
    numbers: Sequence[int], segments: Sequence[RenderedSegment], section: Section, titles: SectionTitles
) -> Iterator[PromptItem]:
    """Yield the items from their numbers and the segments that `_render_items` made of them."""
    place = offset = 0
    for at in range(0, len(numbers), _WIDTH):
        seq, tokens, chars, flags = numbers[at : at + _WIDTH]
        own, data, mime, text = Section(flags & _SECTION), None, "", ""
        if (chars or flags & _HAS_DATA) and own > section:
            section = own
            offset += len(titles.texts[section])
        if chars:
            text = segments[place].text[offset : offset + chars]
            offset += chars
        if flags & _HAS_DATA:
            place += offset > 0
            data, mime = segments[place].data, segments[place].mime
            place, offset = place + 1, 0
        yield PromptItem(seq, EntryText(text, data, mime, tokens), own, bool(flags & _ENDS_PART))


def chain_hash(before: bytes, segments: Sequence[RenderedSegment]) -> bytes:
    """Return the hash of all segments so far, from the hash of the previous ones and these segments."""
    digest = hashlib.sha256(before)
    for segment in segments:
        if segment.data is None:
            piece = segment.text.encode("utf-8", "surrogatepass")
        else:
            data = segment.data
            ref = data if isinstance(data, BlobRef) else ref_of(data)
            piece = f"{segment.mime} {ref.sha256}".encode()
        # Each piece is prefixed with its length, so that different lists of segments never hash the same bytes.
        digest.update(f"{len(piece)} ".encode())
        digest.update(piece)
    return digest.digest()


def _render_items(items: Sequence[PromptItem], section: Section, titles: SectionTitles) -> Iterable[RenderedSegment]:
    texts: list[str] = []
    for item in items:
        shown = item.text
        if shown.is_empty:
            continue
        if item.section > section:
            section = item.section
            texts.append(titles.texts[section])
        texts.append(shown.text)
        if shown.data is not None:
            if text := "".join(texts):
                yield RenderedSegment(text)
            texts.clear()
            yield RenderedSegment(data=shown.data, mime=shown.mime)
    if texts:
        yield RenderedSegment("".join(texts))
