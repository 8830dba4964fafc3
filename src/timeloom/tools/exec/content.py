"""Decides which content of a produced file goes on the timeline and how a prompt shows it."""

from types import MappingProxyType
from typing import Final

import msgspec

from timeloom.core.blocks import Shown
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.v1.entries.previews import PDF
from timeloom.core.tokens import estimate_tokens
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.mime import UNKNOWN_MIME, decode_file_text, guess_mime, is_viewable, strip_mime_parameters

TRUNCATED: Final = "...[truncated]"
"""Marks the place where a text was cut."""

_SIGNATURES: Final = MappingProxyType(
    {
        "image/png": (b"\x89PNG\r\n\x1a\n",),
        "image/jpeg": (b"\xff\xd8\xff",),
        "image/gif": (b"GIF87a", b"GIF89a"),
        "image/webp": (b"RIFF",),
        PDF: (b"%PDF-",),
    }
)


class TimelineContent(msgspec.Struct, frozen=True, kw_only=True):
    """A file's type, and the text or bytes that go on the timeline."""

    mime: str
    text: str | None = None
    data: bytes | None = None
    warning: str = ""


def to_timeline_content(name: str, data: bytes, settings: ExecSettings) -> TimelineContent:
    """Return the content for the timeline: text up to a limit, images and PDFs; nothing for other types."""
    mime = guess_mime(name)
    text = _exact_text(data, mime, settings.text_bytes)
    if text is not None:
        return TimelineContent(mime="text/plain" if mime == UNKNOWN_MIME else mime, text=text)
    if not is_viewable(mime):
        return TimelineContent(mime=mime)
    signatures = _SIGNATURES.get(strip_mime_parameters(mime))
    if signatures and not data.startswith(signatures):
        # A model service would refuse this request and every later one that contains such an image.
        return TimelineContent(
            mime=mime, warning=f"the name says {mime}, and the file is none; its content is not shown"
        )
    most = settings.pdf_bytes if strip_mime_parameters(mime) == PDF else settings.image_bytes
    return TimelineContent(mime=mime, data=data if len(data) <= most else None)


def make_stub(path: str, mime: str, text: str) -> Shown:
    """Return a stub for a text that exceeds the prompt's limit."""
    text_of_stub = f"[READ] not shown: {mime}, {len(text)} characters; react.read({json_line([path])})"
    return Shown("stub", estimate_tokens(text), text_of_stub)


def _exact_text(data: bytes, mime: str, most: int) -> str | None:
    """Return the file's text or its beginning; None if it is not valid UTF-8 text.

    A complete text on the timeline may later be written back as the file, so it must equal the file.
    """
    if decode_file_text(data, mime) is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if len(data) <= most:
        return text
    # The cut text with its mark is shorter than the file, which shows that it is incomplete.
    return data[: most - len(TRUNCATED)].decode("utf-8", "ignore") + TRUNCATED
