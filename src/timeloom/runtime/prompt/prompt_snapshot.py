"""Stores the rendered prompt of a conversation, so that the first prompt after a restart renders only new entries."""

from typing import Final

from timeloom.core.render.prompt import PromptView
from timeloom.core.render.prompt_parts import StoredPart
from timeloom.core.render.renderer import Renderer
from timeloom.runtime.session.session import Session
from timeloom.wire.prompt_snapshot import (
    decode_head,
    decode_page,
    encode_head,
    encode_pages,
    head_version,
    page_version,
)

SAVE_AFTER: Final = 2_000
"""Entries rendered before a new snapshot is worth writing; rendering fewer again takes milliseconds."""


async def load_prompt_snapshot(session: Session, renderer: Renderer) -> PromptView | None:
    """Return the prompt of the stored snapshot, or None if there is none or it does not fit the conversation."""
    found = await session.load_snapshot(head_version(renderer.number))
    head = decode_head(found[1]) if found else None
    if found is None or head is None or head.erasures != session.views.conversation.erased:
        return None
    seq, parts = found[0], list[StoredPart]()
    for number in range(head.pages):
        page = await session.load_snapshot(page_version(renderer.number, number))
        # A process that stopped while it saved leaves pages of different seqs.
        stored = decode_page(page[1]) if page and page[0] == seq else None
        if stored is None:
            return None
        parts += stored
    return PromptView.from_stored(seq, parts, head.aliases, renderer)


async def save_prompt_snapshot(session: Session, view: PromptView) -> None:
    """Store the prompt at its last entry, which must be durable."""
    seq, pages, number = view.seq, 0, view.renderer.number
    try:
        for page in encode_pages(view):
            await session.save_snapshot(seq, page_version(number, pages), page)
            pages += 1
    except UnicodeEncodeError:
        # Text of imported logs may have no UTF-8 form; such a prompt is rendered again after a restart.
        return
    await session.save_snapshot(seq, head_version(number), encode_head(view, pages, session.views.conversation.erased))
