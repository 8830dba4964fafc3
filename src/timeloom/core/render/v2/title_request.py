"""Renders the request for a conversation's title in edition 2."""

from timeloom.core.render.title import MAX_ANSWER_CHARS, MAX_MESSAGE_CHARS
from timeloom.core.render.v2.fence import end_with_break, fence_text
from timeloom.core.stream.surrogates import replace_lone_surrogates


def title_request_text(message: str, answer: str) -> str:
    """Return the message and the answer for a title request, truncated and fenced because they are data."""
    parts = [_fenced_section("THE USER'S FIRST MESSAGE", message, MAX_MESSAGE_CHARS)]
    if answer.strip():
        parts.append(_fenced_section("THE ANSWER", answer, MAX_ANSWER_CHARS))
    return "\n".join([*parts, "[THE TITLE]\nOne line, at most eight words.\n"])


def _fenced_section(title: str, text: str, limit: int) -> str:
    cut = replace_lone_surrogates(text[:limit]).strip()
    body = fence_text(f"{cut}\n…" if len(text) > limit else cut)
    return f"[{title}]\n{end_with_break(body)}[/{title}]\n"
