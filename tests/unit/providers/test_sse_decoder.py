"""Server-sent events: the standard's rules for every way of cutting the stream, within bounds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.providers.sse import SseDecoder, SseError, SseEvent

lines = st.sampled_from(
    [b"data: a", b"data:b", b"data", b"data:  two", b"event: e", b"event", b":c", b"id: 1", b"", b"x: y", b"data: \xff"]
)
streams = st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=12).map(
    lambda pairs: b"".join(line + end for line, end in pairs)
)


def whole(stream: bytes) -> list[SseEvent]:
    return SseDecoder().feed(stream)


def by_the_book(stream: bytes) -> list[SseEvent]:
    """The standard's algorithm, on the whole text at once."""
    events: list[SseEvent] = []
    name, data = b"", list[bytes]()
    for line in re.split(rb"\r\n|\n|\r", stream)[:-1]:
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if not line:
            events += [SseEvent(name.decode(), b"\n".join(data))] if data else []
            name, data = b"", []
        elif field == b"event":
            name = value
        elif field == b"data":
            data.append(value)
    return events


@given(streams)
def test_events_are_those_of_the_standard(stream: bytes) -> None:
    assert whole(stream) == by_the_book(stream)


@given(streams, st.data())
def test_events_do_not_depend_on_how_the_stream_was_cut(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    decoder = SseDecoder()
    assert [event for piece in pieces for event in decoder.feed(piece)] == whole(stream)


@given(streams)
def test_events_that_come_one_by_one_are_the_same(stream: bytes) -> None:
    decoder = SseDecoder()
    pieces = re.findall(rb".+?(?:\n\n|\Z)", stream, re.DOTALL)
    assert [event for piece in pieces for event in decoder.feed(piece)] == whole(stream)


def test_whole_events_by_themselves_are_read_with_their_names() -> None:
    decoder = SseDecoder()
    pieces = [b"data: a\n\n", b"event: e\ndata:{}\n\n", b"data:  b\n\n", b"event: f\n", b"data: c\n\n", b"data\n\n"]
    assert [(event.name, event.data) for piece in pieces for event in decoder.feed(piece)] == [
        ("", b"a"),
        ("e", b"{}"),
        ("", b" b"),
        ("f", b"c"),
        ("", b""),
    ]


def test_a_whole_event_that_is_too_large_is_refused() -> None:
    decoder = SseDecoder(max_event_bytes=64)
    decoder.feed(b"data: a\n\n")
    with pytest.raises(SseError, match="64 bytes"):
        decoder.feed(b"data: " + b"x" * 65 + b"\n\n")


def test_a_byte_order_mark_is_passed_over_once() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"\xef\xbb") + decoder.feed(b"\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n") == [SseEvent("", b"a")]


def test_an_event_that_does_not_end_is_none() -> None:
    assert whole(b"data: a\n") == []
    assert whole(b"event: name\n\ndata: a\n\n") == [SseEvent("", b"a")]


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 100, b"data: 0123456789\n" * 10, b"e" * 101])
def test_what_would_grow_without_end_is_refused(stream: bytes) -> None:
    decoder = SseDecoder(max_event_bytes=64)
    with pytest.raises(SseError, match="64 bytes"):
        for at in range(len(stream)):
            decoder.feed(stream[at : at + 1])


def test_many_events_within_the_bound_pass() -> None:
    decoder = SseDecoder(max_event_bytes=64)
    pieces = [b"data: 0123", b"456789\n", b"\n"] * 100
    assert sum(len(decoder.feed(piece)) for piece in pieces) == 100
