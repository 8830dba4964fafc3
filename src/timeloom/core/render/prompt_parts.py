"""Splits the cacheable prompt into parts that never change after a request has included them."""

import hashlib
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

import msgspec

from timeloom.core.payload import BlobRef, ref_of
from timeloom.core.render.entries.entry_text import EntryText
from timeloom.core.render.segments import RenderedSegment
from timeloom.core.tokens import estimate_tokens


class Section(IntEnum):
    """The sections of the cacheable prompt, in order."""

    NONE = 0
    COMPACTED = 1
    PRUNED = 2
    INTACT = 3


TITLES: Final = {
    Section.COMPACTED: "[COMPACTED PRIOR CONVERSATION MEMORY]\n\n",
    Section.PRUNED: "PRUNED PRIOR TURNS\n\n",
    Section.INTACT: "RECENT INTACT TURNS\n(oldest first; the last turn here is the CURRENT TURN)\n\n",
}
TITLE_TOKENS: Final = {section: estimate_tokens(title) for section, title in TITLES.items()}


class PromptItem(msgspec.Struct, frozen=True):
    """A visible entry or a stub: its text, the section it belongs to, and whether a part ends with it."""

    seq: int
    text: EntryText
    section: Section = Section.INTACT
    ends_part: bool = False


class PromptPart(msgspec.Struct):
    """Consecutive items with the section before the first (`section_before`) and after the last (`section_after`)."""

    items: list[PromptItem]
    section_before: Section = Section.NONE
    section_after: Section = Section.NONE
    tokens: int = 0
    rendered: tuple[RenderedSegment, ...] | None = None

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
        """Whether the part is complete, so that no item is appended to it."""
        return self.items[-1].ends_part

    def append(self, item: PromptItem) -> None:
        """Append the next item."""
        self.items.append(item)
        self._count(item)
        self.rendered = None

    def start_in(self, section: Section) -> None:
        """Set the section before the first item and count all items again."""
        self.section_before = self.section_after = section
        self.tokens, self.rendered = 0, None
        for item in self.items:
            self._count(item)

    def segments(self) -> tuple[RenderedSegment, ...]:
        """Return the rendered segments, split only at attachments; they are rendered once."""
        if self.rendered is None:
            self.rendered = tuple(_render_items(self.items, self.section_before))
        return self.rendered

    def _count(self, item: PromptItem) -> None:
        if not item.text.is_empty:
            self.tokens += item.text.tokens
            if item.section > self.section_after:
                self.section_after = item.section
                self.tokens += TITLE_TOKENS[item.section]


def split_into_parts(items: Iterable[PromptItem]) -> list[PromptPart]:
    """Split the items into parts, each ended by an item that seals."""
    parts: list[PromptPart] = []
    for item in items:
        if parts and not parts[-1].is_sealed:
            parts[-1].items.append(item)
        else:
            parts.append(PromptPart([item]))
    return parts


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


def _render_items(items: Sequence[PromptItem], section: Section) -> Iterable[RenderedSegment]:
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
