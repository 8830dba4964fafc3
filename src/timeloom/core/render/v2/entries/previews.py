"""Decides whether a content is shown completely or as a preview; the decision is recorded with the entry.

Limits, binary data and hints are those of the first edition. `path` is always the path as the prompt shows it.
"""

from msgspec.structs import replace

from timeloom.core.blocks import Shown
from timeloom.core.render.foreign_text.fence import escape, one_line
from timeloom.core.render.foreign_text.json_shape import describe_json_shape
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.v1.entries.previews import (
    DEFAULT_LIMITS,
    IMAGES,
    MAX_OUTLINED_CHARS,
    PDF,
    PreviewLimits,
    add_hint,
    bare_mime,
    not_shown_line,
    preview_data,
)
from timeloom.core.render.v2.fence import fence_text
from timeloom.core.tokens import estimate_tokens
from timeloom.core.view.outline import WordCounts, find_excerpts, join_excerpts, split_ranges

__all__ = [
    "DEFAULT_LIMITS",
    "IMAGES",
    "MAX_OUTLINED_CHARS",
    "PDF",
    "PreviewLimits",
    "add_hint",
    "bare_mime",
    "not_shown_line",
    "outlined_preview",
    "preview_data",
    "preview_for_programs",
    "preview_text",
]


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
    return replace(shown, text=f"{shown.text}; in a program: context_tools.fetch_ctx(path)")


def _build_preview(text: str, mime: str, path: str, tokens: int, chars: int) -> str:
    total = text.count("\n") + (not text.endswith("\n"))
    part = _whole_lines(text[:chars])
    lines = part.count("\n")
    size = f"{len(part)} of {len(text)} characters, about {tokens} tokens in all, {one_line(mime)}"
    out = [f"[PREVIEW] lines [1-{lines}]/{total}, {size}" if lines else f"[PREVIEW] {size}"]
    out.append(fence_text(part).removesuffix("\n"))
    item: dict[str, str | int] = {"path": path, "line_start": lines + 1, "line_count": 200}
    if not part.endswith("\n"):
        out.append(f"[PREVIEW] cut in the middle of line {lines + 1}")
        item["symbol_start"] = len(part) - part.rfind("\n")
    if bare_mime(mime) == "application/json" and (shape := describe_json_shape(text)):
        out.append(f"[SHAPE] {shape}")
    out.append(f"[READ] more: react.read(items=[{json_line(item)}])")
    return "\n".join(out)


def _whole_lines(part: str) -> str:
    """Return the text up to its last complete line, unless that drops more than half of it."""
    end = part.rfind("\n") + 1
    return part[:end] if end * 2 >= len(part) else part
