"""Segments: the pieces in which a prompt goes to a model, as plain values."""

from collections.abc import Iterator, Sequence

import msgspec

from timeloom.core.payload import Data, size_of


class RenderedSegment(msgspec.Struct, frozen=True):
    """Text, or a picture or PDF where `data` is set; what stands up to its end is cached where `cache_point` is set."""

    text: str = ""
    data: Data | None = None
    mime: str = ""
    cache_point: bool = False


def extends(before: Sequence[RenderedSegment], after: Sequence[RenderedSegment]) -> bool:
    """Whether the second cacheable part begins with all of the first, byte for byte; cache points do not matter."""
    return _is_prefix(list(_runs(before)), list(_runs(after)))


def keeps_segments(before: Sequence[RenderedSegment], after: Sequence[RenderedSegment]) -> bool:
    """Whether the second part begins with the very segments of the first, as providers need that cache by segment."""
    return len(before) <= len(after) and all(
        (one.text, one.data, one.mime) == (two.text, two.data, two.mime)
        for one, two in zip(before, after, strict=False)
    )


def _is_prefix(before: list[RenderedSegment], after: list[RenderedSegment]) -> bool:
    if not before:
        return True
    last = len(before) - 1
    if len(after) < len(before) or before[:last] != after[:last]:
        return False
    one, two = before[last], after[last]
    return one.data == two.data and one.mime == two.mime and two.text.startswith(one.text)


def _runs(segments: Sequence[RenderedSegment]) -> Iterator[RenderedSegment]:
    """The segments with neighbouring text joined, so that only the bytes count."""
    texts: list[str] = []
    for segment in segments:
        if segment.data is None:
            texts.append(segment.text)
            continue
        yield RenderedSegment("".join(texts))
        texts.clear()
        yield RenderedSegment(data=segment.data, mime=segment.mime)
    if texts:
        yield RenderedSegment("".join(texts))


def as_text(segments: Sequence[RenderedSegment]) -> str:
    """The segments for a reader: text as it is, a line for what is attached, and one for each cache point."""
    return "".join(_shown(segment) + ("<cache point>\n\n" if segment.cache_point else "") for segment in segments)


def _shown(segment: RenderedSegment) -> str:
    if segment.data is None:
        return segment.text
    base64_chars = (size_of(segment.data) + 2) // 3 * 4
    kind = "image" if segment.mime.startswith("image/") else "document"
    return f"<{kind} media_type={segment.mime} b64_len={base64_chars}>\n\n"
