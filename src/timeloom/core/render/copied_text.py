"""Undoes the escapes of a prompt in text that a model copies from it into a call."""

from timeloom.core.render.foreign_text.fence import unescape
from timeloom.core.render.v2.fence import unfence_text


def undo_escapes(text: str, edition: int) -> str:
    """Return the text without the escapes that prompts of that edition add to foreign text."""
    return unescape(text) if edition < 2 else unfence_text(text)
