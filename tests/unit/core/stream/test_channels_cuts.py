"""The channel parser against a slow reading of the whole reply, for every way of cutting it."""

import re
from collections import Counter
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.stream.channels import (
    DECISION,
    ChannelClosed,
    ChannelDelta,
    ChannelEvent,
    ChannelOpened,
    ChannelParser,
    OutsideText,
    ProtocolViolation,
    UndeclaredText,
    coalesce,
)

NAMES = {"thinking": "thinking", DECISION: DECISION, "action": DECISION, "code": "code", "summary": "summary"}
FRAGMENTS = [
    *(f"<channel:{name}>" for name in (*NAMES, "other", "thinking2", "th")),
    *(f"</channel:{name}>" for name in (*NAMES, "other", "thinking2", "th")),
    *(f"\n<channel:{name}>" for name in (*NAMES, "other")),
    *("<", "</", "<channel:", "</channel:", "</channel:th", "\n<channel:co", ">", "<channel: code>"),
    *("\n", "\r\n", " ", '"', "\\", '\\"', "\\\\", "`", "```\n", "{", "}", "x", "é", "😀", "\ud83d", "\ude00"),
]
By = Literal["close_tag", "open_tag", "end_of_stream"]
QUOTED = st.lists(st.sampled_from(['"', "\\", "</channel:action>", "</channel:", "x"]), max_size=14).map("".join)
REPLIES = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=14).map("".join) | QUOTED.map(
    lambda text: f"<channel:action>{text}"
)


def open_string(json: str) -> bool:
    """Whether JSON text that stops here has stopped inside a string."""
    inside, backslashes = False, 0
    for char in json:
        if char == '"' and backslashes % 2 == 0:
            inside = not inside
        backslashes = backslashes + 1 if char == "\\" else 0
    return inside


def end_of(text: str, start: int, name: str) -> tuple[int, By, str]:
    """Where the channel's text ends, by what, and the tag that ends it."""
    closes = [f"</channel:{known}>" for known in NAMES if NAMES[known] == name] or [f"</channel:{name}>"]
    for at in range(start, len(text)):
        for tag in closes:
            if text.startswith(tag, at) and not (name == DECISION and open_string(text[start:at])):
                return at, "close_tag", tag
        if at > start and text[at - 1] == "\n" and name not in ("code", DECISION):
            for known in NAMES:
                if text.startswith(f"<channel:{known}>", at):
                    return at, "open_tag", ""
    return len(text), "end_of_stream", ""


def slowly(text: str) -> list[ChannelEvent]:
    """The events of a whole reply, with no messages."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    events: list[ChannelEvent] = []
    counts: Counter[str] = Counter()
    at = 0
    while at < len(text):
        tag = re.compile("<channel:([A-Za-z_][A-Za-z0-9_.-]{0,63})>").search(text, at)
        outside = text[at : tag.start() if tag else len(text)].lstrip()
        if outside:
            index = counts[""]
            counts[""] += 1
            events += [
                ProtocolViolation("", index, "protocol_violation.text_outside_channels", ""),
                OutsideText(index, outside),
            ]
        if not tag:
            break
        name = NAMES.get(tag[1], tag[1])
        index = counts[name]
        counts[name] += 1
        end, by, close = end_of(text, tag.end(), name)
        at = end + len(close)
        unclosed = (
            [ProtocolViolation(name, index, "protocol_violation.channel_unclosed", "")] if by != "close_tag" else []
        )
        if name in NAMES:
            inner = text[tag.end() : end]
            events += [ChannelOpened(name, index), *([ChannelDelta(name, index, inner)] if inner else []), *unclosed]
            events.append(ChannelClosed(name, index, by))
        else:
            events += [ProtocolViolation(name, index, "protocol_violation.undeclared_channel", "")]
            events += [UndeclaredText(name, index, text[tag.start() : at]), *unclosed]
    return events


def silent(events: list[ChannelEvent]) -> list[ChannelEvent]:
    return [
        ProtocolViolation(e.channel, e.index, e.code, "") if isinstance(e, ProtocolViolation) else e
        for e in coalesce(events)
    ]


def in_pieces(text: str, sizes: list[int]) -> list[ChannelEvent]:
    parser = ChannelParser()
    events: list[ChannelEvent] = []
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        events += parser.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    return events + parser.close()


@given(REPLIES)
def test_a_reply_in_one_piece_reads_as_the_slow_reading_does(text: str) -> None:
    assert silent(in_pieces(text, [len(text) + 1])) == slowly(text)


@given(REPLIES, st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_the_outcome_does_not_depend_on_the_cuts(text: str, sizes: list[int]) -> None:
    whole = coalesce(in_pieces(text, [len(text) + 1]))
    assert coalesce(in_pieces(text, sizes)) == whole
    assert coalesce(in_pieces(text, [1])) == whole


@given(REPLIES.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=40))
def test_the_outcome_does_not_depend_on_the_cuts_between_bytes(data: bytes) -> None:
    parser = ChannelParser()
    events = [event for at in range(len(data)) for event in parser.feed_bytes(data[at : at + 1])]
    whole = in_pieces(data.decode("utf-8", "replace"), [len(data) + 1])
    assert coalesce([*events, *parser.close()]) == coalesce(whole)


@given(REPLIES, st.integers(1, 20))
def test_the_reply_can_be_written_again_from_its_events(text: str, size: int) -> None:
    again = "".join(as_written(event) for event in in_pieces(text, [size]))
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert without_aliases_and_space(again) == without_aliases_and_space(whole)


def as_written(event: ChannelEvent) -> str:
    match event:
        case ChannelOpened(channel=channel):
            return f"<channel:{channel}>"
        case ChannelClosed(channel=channel, by="close_tag"):
            return f"</channel:{channel}>"
        case _:
            return event.text


def without_aliases_and_space(text: str) -> str:
    return "".join(text.replace("channel:action>", f"channel:{DECISION}>").split())


@given(REPLIES, st.integers(1, 20))
def test_no_text_event_is_empty_and_at_most_a_tag_is_held_back(text: str, size: int) -> None:
    parser = ChannelParser()
    for at in range(0, len(text), size):
        for event in parser.feed(text[at : at + size]):
            assert event.text or isinstance(event, (ChannelOpened, ChannelClosed, ProtocolViolation))
    assert sum(len(event.text) for event in parser.close()) <= len("</channel:") + 64


def test_hostile_megabytes_are_read_in_one_pass() -> None:
    for unit in ("<", "<channel:", "</channel:", '"\\', "<channel:a></channel:a>", "\n<channel:thinking>"):
        for start in (
            "",
            "<channel:thinking>",
            "<channel:action>",
            '<channel:action>"',
            "<channel:code>",
            "<channel:a>",
        ):
            text = start + unit * (200_000 // len(unit))
            assert sum(len(event.text) for event in in_pieces(text, [4096])) <= len(text)
