"""Previews: whether a content is shown whole or in part, decided once when it is appended and recorded with it."""

from typing import Final

import msgspec

from timeloom.core.blocks import Shown
from timeloom.core.render.foreign_text.fence import fence, one_line
from timeloom.core.render.foreign_text.json_shape import shape_of
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.tokens import estimate

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Pictures that models take; any other kind is named and not attached."""

PDF: Final = "application/pdf"


class PreviewLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown whole: text up to both of its caps, pictures and PDFs up to theirs; and how much a preview shows.

    Smaller caps make the model read again what it was given; larger ones fill the window with one result.
    """

    whole_chars: int = 24_000
    whole_tokens: int = 8_000
    preview_chars: int = 6_000
    image_bytes: int = 5 * 1024 * 1024
    pdf_bytes: int = 10 * 1024 * 1024


DEFAULT_LIMITS: Final = PreviewLimits()


def shown_text(text: str, mime: str, path: str, limits: PreviewLimits = DEFAULT_LIMITS) -> Shown:
    """How a prompt shows this text: whole, or as a preview with its size, its shape and how to read the rest."""
    tokens = estimate(text)
    if len(text) <= limits.whole_chars and tokens <= limits.whole_tokens:
        return Shown("whole", tokens)
    return Shown("preview", tokens, _preview(text, mime, path, tokens, limits.preview_chars))


def shown_data(mime: str, size_bytes: int, path: str, limits: PreviewLimits = DEFAULT_LIMITS) -> Shown:
    """How a prompt shows these bytes: attached whole, or named in one line."""
    mime = bare(mime)
    cap = limits.pdf_bytes if mime == PDF else limits.image_bytes
    if mime != PDF and mime not in IMAGES:
        return Shown("stub", 0, unshown(mime, size_bytes, path))
    if size_bytes > cap:
        why = f"larger than the {cap} bytes that may be attached"
        return Shown(
            "stub", 0, f"[READ] not attached: {one_line(mime)}, {size_bytes} bytes, {why}; use code to read it"
        )
    return Shown("whole", 0)


def bare(mime: str) -> str:
    """The type itself, without parameters and in small letters."""
    return mime.partition(";")[0].strip().lower()


def unshown(mime: str, size_bytes: int | None, path: str) -> str:
    """The line that stands for a content of which a prompt can show nothing."""
    size = "" if size_bytes is None else f", {size_bytes} bytes"
    return f"[READ] not shown: {one_line(mime)}{size}; use code to read it, after react.pull({json_line([path])})"


def shown_lines(text: str, first_line: int, total_lines: int, path: str) -> Shown:
    """How a prompt shows a range of lines that was asked for: all of it, numbered as in the file."""
    count = max(1, text.count("\n") + (not text.endswith("\n")))
    last = first_line + count - 1
    head = f"[PREVIEW] lines [{first_line}-{last}]/{total_lines} of {one_line(path)}"
    return Shown("preview", estimate(text), f"{head}\n{_ended(fence(text, first_line))}".removesuffix("\n"))


def _preview(text: str, mime: str, path: str, tokens: int, chars: int) -> str:
    total = text.count("\n") + (not text.endswith("\n"))
    part = _whole_lines(text[:chars])
    lines = part.count("\n")
    size = f"{len(part)} of {len(text)} characters, about {tokens} tokens in all, {one_line(mime)}"
    out = [f"[PREVIEW] lines [1-{lines}]/{total}, {size}" if lines else f"[PREVIEW] {size}"]
    out.append(fence(part, 1 if lines else None).removesuffix("\n"))
    if not part.endswith("\n"):
        out.append(f"[PREVIEW] cut in the middle of line {lines + 1}")
    if bare(mime) == "application/json" and (shape := shape_of(text)):
        out.append(f"[SHAPE] {shape}")
    item = json_line({"path": path, "line_start": lines + 1, "line_count": 200})
    out.append(f"[READ] more: react.read({json_line([path])}), or a part: react.read(items=[{item}])")
    return "\n".join(out)


def _whole_lines(part: str) -> str:
    """The part up to its last full line, unless that would leave out more than half of it."""
    end = part.rfind("\n") + 1
    return part[:end] if end * 2 >= len(part) else part


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
