"""Decides whether a content is shown completely or as a preview; the decision is recorded with the entry."""

from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import Shown
from timeloom.core.blocks.extract_payloads import INLINE_BYTES
from timeloom.core.payload import max_utf8_bytes
from timeloom.core.render.foreign_text.fence import escape, fence, one_line
from timeloom.core.render.foreign_text.json_shape import describe_json_shape
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.outline import WordCounts, find_excerpts, join_excerpts, split_ranges
from timeloom.core.view.turn_index import hint as make_hint

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Image types that models accept; other types are named but not attached."""

PDF: Final = "application/pdf"

MAX_OUTLINED_CHARS: Final = 1_000_000
"""Maximum length of a text whose preview outlines the rest, since every word of it is counted."""


class PreviewLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits up to which text, images and PDFs are shown completely, and the length of a preview.

    Smaller limits make the model read content again; larger limits let one result fill the window.
    """

    whole_chars: int = 24_000
    whole_tokens: int = 8_000
    preview_chars: int = 6_000
    image_bytes: int = 5 * 1024 * 1024
    pdf_bytes: int = 10 * 1024 * 1024


DEFAULT_LIMITS: Final = PreviewLimits()


def preview_text(text: str, mime: str, path: str, limits: PreviewLimits = DEFAULT_LIMITS) -> Shown:
    """Return how a prompt shows the text: completely, or as a preview with size, shape and read instructions."""
    tokens = estimate_tokens(text)
    if len(text) <= limits.whole_chars and tokens <= limits.whole_tokens:
        return Shown("whole", tokens)
    return Shown("preview", tokens, _build_preview(text, mime, path, tokens, limits.preview_chars))


def outlined_preview(text: str, mime: str, path: str) -> Shown:
    """Return the same as `preview_text`; a preview also outlines the lines after its own.

    Only for texts whose preview is recorded: a preview that is made anew for each prompt must stay as it is.
    """
    shown = preview_text(text, mime, path)
    if shown.how != "preview" or len(text) > MAX_OUTLINED_CHARS:
        return shown
    counts, total = WordCounts([text]), text.count("\n") + (not text.endswith("\n"))
    lines = [
        f"[PREVIEW] {one.words} of {total}: {escape(join_excerpts(find_excerpts(text, one, counts, 2).texts))}"
        for one in split_ranges(text)
        if one.end > DEFAULT_LIMITS.preview_chars
    ]
    before, _, read = shown.text.rpartition("\n")
    return replace(shown, text="\n".join([before, *lines, read]))


def preview_for_programs(text: str, mime: str, path: str) -> Shown:
    """Return the same as `outlined_preview`; a preview also names the call by which a program gets the whole text."""
    shown = outlined_preview(text, mime, path)
    if shown.how != "preview":
        return shown
    return replace(shown, text=f"{shown.text}, or in a program: context_tools.fetch_ctx({json_line(path)})")


def add_hint(shown: Shown, text: str, mime: str) -> Shown:
    """Return the choice with a hint at a text that is stored apart: its shape if it is JSON, else its first words."""
    if max_utf8_bytes(text) <= INLINE_BYTES:
        return shown
    shape = describe_json_shape(text) if bare_mime(mime) == "application/json" else ""
    return replace(shown, hint=make_hint(shape or text))


def preview_data(mime: str, size_bytes: int, path: str, limits: PreviewLimits = DEFAULT_LIMITS) -> Shown:
    """Return how a prompt shows binary data: attached completely, or named in one line."""
    mime = bare_mime(mime)
    cap = limits.pdf_bytes if mime == PDF else limits.image_bytes
    if mime != PDF and mime not in IMAGES:
        return Shown("stub", 0, not_shown_line(mime, size_bytes, path))
    if size_bytes > cap:
        why = f"larger than the {cap} bytes that may be attached"
        return Shown(
            "stub", 0, f"[READ] not attached: {one_line(mime)}, {size_bytes} bytes, {why}; use code to read it"
        )
    return Shown("whole", 0)


def bare_mime(mime: str) -> str:
    """Return the MIME type in lower case, without parameters."""
    return mime.partition(";")[0].strip().lower()


def not_shown_line(mime: str, size_bytes: int | None, path: str) -> str:
    """Return the line that replaces a content that a prompt cannot show."""
    size = "" if size_bytes is None else f", {size_bytes} bytes"
    return f"[READ] not shown: {one_line(mime)}{size}; use code to read it, after react.pull({json_line([path])})"


def preview_lines(text: str, first_line: int, total_lines: int, path: str) -> Shown:
    """Return how a prompt shows a requested range of lines: all of it, with the line numbers of the file."""
    count = max(1, text.count("\n") + (not text.endswith("\n")))
    last = first_line + count - 1
    head = f"[PREVIEW] lines [{first_line}-{last}]/{total_lines} of {one_line(path)}"
    return Shown(
        "preview", estimate_tokens(text), f"{head}\n{_with_newline(fence(text, first_line))}".removesuffix("\n")
    )


def _build_preview(text: str, mime: str, path: str, tokens: int, chars: int) -> str:
    total = text.count("\n") + (not text.endswith("\n"))
    part = _whole_lines(text[:chars])
    lines = part.count("\n")
    size = f"{len(part)} of {len(text)} characters, about {tokens} tokens in all, {one_line(mime)}"
    out = [f"[PREVIEW] lines [1-{lines}]/{total}, {size}" if lines else f"[PREVIEW] {size}"]
    out.append(fence(part, 1 if lines else None).removesuffix("\n"))
    if not part.endswith("\n"):
        out.append(f"[PREVIEW] cut in the middle of line {lines + 1}")
    if bare_mime(mime) == "application/json" and (shape := describe_json_shape(text)):
        out.append(f"[SHAPE] {shape}")
    item = json_line({"path": path, "line_start": lines + 1, "line_count": 200})
    out.append(f"[READ] more: react.read({json_line([path])}), or a part: react.read(items=[{item}])")
    return "\n".join(out)


def _whole_lines(part: str) -> str:
    """Return the text up to its last complete line, unless that drops more than half of it."""
    end = part.rfind("\n") + 1
    return part[:end] if end * 2 >= len(part) else part


def _with_newline(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
