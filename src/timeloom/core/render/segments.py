"""The segments in which a rendered prompt is sent to a model."""

from collections.abc import Iterator, Sequence

import msgspec

from timeloom.core.payload import Data, size_of


class RenderedSegment(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Text, or an image or PDF if `data` is set; `cache_point` caches the prompt up to the segment's end."""

    text: str = ""
    data: Data | None = None
    mime: str = ""
    cache_point: bool = False


def is_byte_prefix(before: Sequence[RenderedSegment], after: Sequence[RenderedSegment]) -> bool:
    """Whether the second cacheable part begins with the bytes of the first; cache points are ignored."""
    return _is_prefix(list(_join_text(before)), list(_join_text(after)))


def is_segment_prefix(before: Sequence[RenderedSegment], after: Sequence[RenderedSegment]) -> bool:
    """Whether the second part begins with the same segments, as providers that cache by segment require."""
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


def _join_text(segments: Sequence[RenderedSegment]) -> Iterator[RenderedSegment]:
    """Yield the segments with adjacent text joined, so that a comparison depends only on the bytes."""
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
    """Return the segments as text for people, with a line for each attachment and each cache point."""
    return "".join(
        _segment_text(segment) + ("<cache point>\n\n" if segment.cache_point else "") for segment in segments
    )


def _segment_text(segment: RenderedSegment) -> str:
    if segment.data is None:
        return segment.text
    base64_chars = (size_of(segment.data) + 2) // 3 * 4
    kind = "image" if segment.mime.startswith("image/") else "document"
    return f"<{kind} media_type={segment.mime} b64_len={base64_chars}>\n\n"
