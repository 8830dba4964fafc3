"""The text of a raw channel, read at once and in pieces."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from timeloom.core.stream.channels import (
    RAW_FIELDS,
    ChannelClosed,
    ChannelDelta,
    ChannelOpened,
    ChannelParser,
    coalesce,
    declared_channels,
    trim_channel_text,
)
from timeloom.core.stream.raw_text import RawTextStream, escape_tags, unescape_tags

FRAGMENTS = ["<", "</", "~", "<~", "</~~", "channel", "channel:", "CHAN", "<~channel:x>", "\r", "\n", "\r\n", "a", " "]
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=10).map("".join)


def pieces(text: str, sizes: Sequence[int]) -> list[str]:
    ends = itertools.takewhile(lambda end: end < len(text), itertools.accumulate(itertools.cycle(sizes)))
    return [text[a:b] for a, b in itertools.pairwise([0, *ends, len(text)])]


def stream(parts: Sequence[str], *, unescapes: bool) -> str:
    reader = RawTextStream(unescapes=unescapes)
    return "".join([*map(reader.feed, parts), reader.close()])


@given(TEXTS)
def test_escaped_tags_are_unescaped(text: str) -> None:
    assert unescape_tags(escape_tags(text)) == text


@given(TEXTS, st.lists(st.integers(1, 5), min_size=1, max_size=4))
@example("\r", [1])
@example("\r\n\r\n", [1])
@example("</~~~channel:x>", [1])
def test_a_streamed_text_is_the_text_that_is_read_in_the_end(text: str, sizes: list[int]) -> None:
    for parts in (pieces(text, sizes), list(text), ["", text, ""]):
        assert stream(parts, unescapes=False) == trim_channel_text(text)
        assert stream(parts, unescapes=True) == unescape_tags(trim_channel_text(text))


def test_text_is_shown_from_its_first_character() -> None:
    reader = RawTextStream(unescapes=True)
    assert [reader.feed(piece) for piece in ("\n", "R", "ain", ".\n", "x", " <", "b")] == [
        *("", "R", "ain", ".", "\nx", " ", "<b"),
    ]


def test_many_escapes_in_single_characters_take_linear_time() -> None:
    reader = RawTextStream(unescapes=True)
    assert [reader.feed(char) for char in "<" + "~" * 100_000] == [""] * 100_001
    assert reader.feed("channel:x") == "<" + "~" * 99_999 + "channel:x"


@pytest.mark.parametrize("name", RAW_FIELDS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_only_its_own_close_tag_ends_a_raw_channel(name: str, size: int) -> None:
    text = f'\n"one\n<channel:thinking>\n</channel:thinking>\n<channel:{name}>\n</channel:other>'
    parser = ChannelParser(declared_channels(2))
    reply = f"<channel:{name}>{text}</channel:{name}>"
    events = [event for part in pieces(reply, [size]) for event in parser.feed(part)]
    assert coalesce([*events, *parser.close()]) == [
        ChannelOpened(name, 0),
        ChannelDelta(name, 0, text),
        ChannelClosed(name, 0, "close_tag"),
    ]
