"""Content: what of a produced file stands on the timeline, and how a prompt shows it."""

from types import MappingProxyType
from typing import Final

import msgspec

from timeloom.core.blocks import Shown
from timeloom.core.render.entries.previews import PDF
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.tokens import estimate
from timeloom.tools.exec.settings import ExecSettings
from timeloom.tools.mime import UNKNOWN, bare, is_viewable, mime_of, text_in

TRUNCATED: Final = "...[truncated]"
"""Stands where a text was cut."""

_SIGNATURES: Final = MappingProxyType(
    {
        "image/png": (b"\x89PNG\r\n\x1a\n",),
        "image/jpeg": (b"\xff\xd8\xff",),
        "image/gif": (b"GIF87a", b"GIF89a"),
        "image/webp": (b"RIFF",),
        PDF: (b"%PDF-",),
    }
)


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """A file's type, and its text or its bytes where they go on the timeline."""

    mime: str
    text: str | None = None
    data: bytes | None = None
    warning: str = ""


def content_of(name: str, data: bytes, settings: ExecSettings) -> Content:
    """What of the file stands on the timeline: text up to a bound, PDFs and images, of anything else nothing."""
    mime = mime_of(name)
    text = _text(data, mime, settings.text_bytes)
    if text is not None:
        return Content(mime="text/plain" if mime == UNKNOWN else mime, text=text)
    if not is_viewable(mime):
        return Content(mime=mime)
    signatures = _SIGNATURES.get(bare(mime))
    if signatures and not data.startswith(signatures):
        # A service refuses a request with such an image in it, and would refuse every later one too.
        return Content(mime=mime, warning=f"the name says {mime}, and the file is none; its content is not shown")
    most = settings.pdf_bytes if bare(mime) == PDF else settings.image_bytes
    return Content(mime=mime, data=data if len(data) <= most else None)


def named_only(path: str, mime: str, text: str) -> Shown:
    """How a prompt shows a text that it has no room for."""
    said = f"[READ] not shown: {mime}, {len(text)} characters; react.read({json_line([path])})"
    return Shown("stub", estimate(text), said)


def _text(data: bytes, mime: str, most: int) -> str | None:
    """The file's text, or its beginning; nothing where it is none, or where it would not be the same in UTF-8.

    What the timeline has whole may later be written in the place of the file, so it has to be the file.
    """
    if text_in(data, mime) is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if len(data) <= most:
        return text
    # Shorter than the bound with its mark, so that it is shorter than the file: that tells that it is not whole.
    return data[: most - len(TRUNCATED)].decode("utf-8", "ignore") + TRUNCATED
