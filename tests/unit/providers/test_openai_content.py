"""The content of a chat completions request: only new segments are encoded, and the bytes are the same."""

import base64
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.ports.model import DataSegment, ModelRequest, Segment, TextSegment
from timeloom.providers.openai.content import ContentCache, EncodedContent
from timeloom.providers.openai.request import request_body

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SEGMENTS = st.one_of(
    st.builds(TextSegment, TEXTS, st.booleans()),
    st.builds(
        DataSegment, st.sampled_from(["image/png", "image/JPEG; q=1", "application/pdf", "a/b"]), st.binary(max_size=4)
    ),
)
PROMPTS = st.lists(st.tuples(st.integers(0, 6), st.lists(SEGMENTS, max_size=4)), max_size=6)
"""For each request: how many segments of the one before it keeps, and those that follow."""


def request(segments: Sequence[Segment], conversation: str = "conv_1") -> ModelRequest:
    return ModelRequest(system='Be "short".', segments=tuple(segments), conversation=conversation)


def content_from_scratch(segments: Sequence[Segment], *, official: bool) -> str | list[dict[str, object]]:
    """Return the content as a value: plain text, or parts of which adjacent text is one."""
    parts: list[dict[str, object]] = []
    for segment in segments:
        part = segment.text if isinstance(segment, TextSegment) else data_part(segment, official=official)
        if not isinstance(part, str):
            parts.append(part)
        elif part and parts and parts[-1]["type"] == "text":
            parts[-1] = {"type": "text", "text": f"{parts[-1]['text']}{part}"}
        elif part:
            parts.append({"type": "text", "text": part})
    if all(part["type"] == "text" for part in parts):
        return str(parts[0]["text"]) if parts else ""
    return parts


def data_part(segment: DataSegment, *, official: bool) -> str | dict[str, object]:
    mime = segment.mime.partition(";")[0].lower()
    uri = f"data:{mime};base64,{base64.b64encode(segment.data).decode()}"
    if mime.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": uri}}
    if mime == "application/pdf" and official:
        return {"type": "file", "file": {"filename": "document.pdf", "file_data": uri}}
    return f"[{mime}, {len(segment.data)} bytes: this model cannot see it]\n"


@given(PROMPTS, st.booleans())
def test_a_body_with_a_kept_beginning_is_the_body_from_scratch(
    rounds: list[tuple[int, list[Segment]]], official: bool
) -> None:
    contents = ContentCache()
    segments: list[Segment] = []
    for kept, fresh in rounds:
        segments = [*segments[:kept], *fresh]
        asked = request(segments)
        body = request_body("m", asked, official=official, contents=contents)
        content = msgspec.json.encode(content_from_scratch(segments, official=official))
        assert body == request_body("m", asked, official=official)
        assert content in body
        assert msgspec.json.encode(msgspec.json.decode(body)) == body


def test_the_whole_body_has_these_bytes() -> None:
    contents = ContentCache()
    past = [TextSegment("a\n"), TextSegment("é“\x00", cache_point=True)]
    request_body("m", request([*past, TextSegment("the tail")]), official=False, contents=contents)
    body = request_body("m", request([*past, TextSegment("the end")]), official=False, contents=contents)
    assert body.decode() == (
        '{"model":"m","messages":[{"role":"system","content":"Be \\"short\\"."},'
        '{"role":"user","content":"a\\né“\\u0000the end"}],'
        '"stream":true,"stream_options":{"include_usage":true},"max_tokens":8192}'
    )


def test_what_was_sent_before_is_not_encoded_again() -> None:
    content = EncodedContent(official=False)
    past = [TextSegment(f"line {n}\n") for n in range(200)]
    content.encode([*past, TextSegment("tail 1")])
    assert content.encoded_segments == 201
    moved = [*past[:150], TextSegment(past[150].text, cache_point=True), *past[151:]]
    content.encode([*moved, TextSegment("new\n"), TextSegment("tail 2")])
    assert content.encoded_segments == 203


def test_two_conversations_do_not_share_their_text() -> None:
    contents = ContentCache()
    bodies = [
        request_body("m", request([TextSegment("same"), TextSegment(word)], name), official=False, contents=contents)
        for word, name in (("one", "conv_1"), ("two", "conv_2"), ("three", "conv_1"))
    ]
    assert [text in body for text, body in zip((b"sameone", b"sametwo", b"samethree"), bodies, strict=True)] == [
        True
    ] * 3


def test_the_least_recently_used_conversation_is_dropped_first() -> None:
    contents = ContentCache(max_bytes=100)
    for name in ("conv_1", "conv_2", "conv_1", "conv_3"):
        contents.encode(request([TextSegment("x" * 40)], name), official=False)
    assert contents.kept_bytes == 80
    assert contents.keeps("conv_1", official=False)
    assert not contents.keeps("conv_2", official=False)


def test_a_content_above_the_limit_is_not_kept() -> None:
    contents = ContentCache(max_bytes=100)
    for length in (40, 101):
        contents.encode(request([TextSegment("x" * length)]), official=False)
    assert contents.kept_bytes == 0


def test_a_request_of_no_conversation_is_not_kept() -> None:
    contents = ContentCache()
    contents.encode(request([TextSegment("a title")], ""), official=False)
    assert contents.kept_bytes == 0


def test_a_text_that_cannot_be_encoded_leaves_nothing_behind() -> None:
    content = EncodedContent(official=False)
    with pytest.raises(UnicodeEncodeError):
        content.encode([TextSegment("a"), TextSegment("\ud800")])
    assert content.encode([TextSegment("a"), TextSegment("b")]) == b'"ab"'
