"""Encodes snapshots of rendered prompts and decodes them; a snapshot has a head and pages of parts."""

from collections.abc import Iterator
from typing import Final

import msgspec

from timeloom.core.render.prompt import PromptView
from timeloom.core.render.prompt_parts import StoredPart
from timeloom.core.view.views import VIEWS_VERSION

PAGE_CHARS: Final = 1_000_000
"""Characters after which a page ends. A larger page needs more memory when it is written or read; a smaller one more
files."""


class PromptHead(msgspec.Struct, frozen=True):
    """The head of a snapshot: its number of pages, and the state of the prompt that is not in its parts."""

    pages: int
    erasures: int
    """Number of erasures by then. A snapshot from before an erasure may contain erased text."""
    aliases: dict[str, list[int]]


_ENCODER: Final = msgspec.msgpack.Encoder()
_HEAD: Final = msgspec.msgpack.Decoder(PromptHead)
_PAGE: Final = msgspec.msgpack.Decoder(list[StoredPart])


def head_version(rendering: int) -> str:
    """Return the key under which heads are stored.

    Snapshots of another format, rendering or views version are never read.
    """
    return f"prompt-1-{rendering}-{VIEWS_VERSION}"


def page_version(rendering: int, page: int) -> str:
    """Return the key under which a page is stored, counted from 0."""
    return f"{head_version(rendering)}#{page}"


def encode_head(view: PromptView, pages: int, erasures: int) -> bytes:
    """Return the head of a snapshot of the prompt as bytes."""
    return _ENCODER.encode(PromptHead(pages, erasures, {alias: list(seqs) for alias, seqs in view.aliases.items()}))


def encode_pages(view: PromptView) -> Iterator[bytes]:
    """Yield the pages while the view does not change; raises `UnicodeEncodeError` for text without a UTF-8 form."""
    page, chars = list[StoredPart](), 0
    for part in view.stored_parts():
        page.append(part)
        chars += sum(len(segment.text) for segment in part.segments)
        if chars >= PAGE_CHARS:
            yield _ENCODER.encode(page)
            page, chars = [], 0
    yield _ENCODER.encode(page)


def decode_head(data: bytes) -> PromptHead | None:
    """Return the decoded head, or None if the bytes are invalid."""
    try:
        return _HEAD.decode(data)
    except (msgspec.MsgspecError, ValueError):
        return None


def decode_page(data: bytes) -> list[StoredPart] | None:
    """Return the decoded parts, or None if the bytes are invalid."""
    try:
        return _PAGE.decode(data)
    except (msgspec.MsgspecError, ValueError):
        return None
