"""The channel parser's rules, one example each."""

import msgspec
import pytest

from timeloom.core.codes import CODES
from timeloom.core.stream.channels import (
    DECISION,
    OUTSIDE,
    Channel,
    ChannelClosed,
    ChannelDelta,
    ChannelEvent,
    ChannelOpened,
    ChannelParser,
    OutsideText,
    ProtocolViolation,
    UndeclaredText,
    coalesce,
    trim_channel_text,
)

UNCLOSED = "protocol_violation.channel_unclosed"
TEXT_OUTSIDE = "protocol_violation.text_outside_channels"
UNDECLARED = "protocol_violation.undeclared_channel"


def parse(text: str) -> list[ChannelEvent]:
    parser = ChannelParser()
    return coalesce([*parser.feed(text), *parser.close()])


def texts(events: list[ChannelEvent]) -> list[tuple[str, int, str]]:
    return [(event.channel, event.index, event.text) for event in events if event.text]


def violations(events: list[ChannelEvent]) -> list[tuple[str, str, int]]:
    return [(event.code, event.channel, event.index) for event in events if isinstance(event, ProtocolViolation)]


def test_a_well_formed_reply_gives_each_channel_its_text() -> None:
    reply = (
        "<channel:thinking>hm</channel:thinking>\n"
        '<channel:ReactDecisionOutV2>{"action": "exit"}</channel:ReactDecisionOutV2>\n'
        "<channel:code>\nprint(1)\n</channel:code>\n<channel:summary>did it</channel:summary>\n"
    )
    assert parse(reply) == [
        ChannelOpened("thinking", 0),
        ChannelDelta("thinking", 0, "hm"),
        ChannelClosed("thinking", 0, "close_tag"),
        ChannelOpened(DECISION, 0),
        ChannelDelta(DECISION, 0, '{"action": "exit"}'),
        ChannelClosed(DECISION, 0, "close_tag"),
        ChannelOpened("code", 0),
        ChannelDelta("code", 0, "\nprint(1)\n"),
        ChannelClosed("code", 0, "close_tag"),
        ChannelOpened("summary", 0),
        ChannelDelta("summary", 0, "did it"),
        ChannelClosed("summary", 0, "close_tag"),
    ]


def test_repeated_channels_are_numbered_apart() -> None:
    events = parse("<channel:code>a</channel:code><channel:thinking>t</channel:thinking><channel:code>b</channel:code>")
    assert texts(events) == [("code", 0, "a"), ("thinking", 0, "t"), ("code", 1, "b")]


def test_action_is_a_name_for_the_decision_channel_and_counts_with_it() -> None:
    events = parse("<channel:action>{}</channel:action><channel:ReactDecisionOutV2>[]</channel:ReactDecisionOutV2>")
    assert texts(events) == [(DECISION, 0, "{}"), (DECISION, 1, "[]")]


def test_either_name_closes_the_decision_channel() -> None:
    assert parse("<channel:action>{}</channel:ReactDecisionOutV2>")[-1] == ChannelClosed(DECISION, 0, "close_tag")
    assert parse("<channel:ReactDecisionOutV2>{}</channel:action>")[-1] == ChannelClosed(DECISION, 0, "close_tag")


def test_an_empty_channel_has_no_delta() -> None:
    assert parse("<channel:code></channel:code>") == [ChannelOpened("code", 0), ChannelClosed("code", 0, "close_tag")]


@pytest.mark.parametrize(
    "inner",
    [
        '{"notes": "</channel:ReactDecisionOutV2>"}',
        r'{"notes": "a \" </channel:ReactDecisionOutV2>"}',
        r'{"notes": "a \\\" </channel:ReactDecisionOutV2>"}',
        r'{"a\\": 1, "notes": "</channel:action>"}',
    ],
)
def test_a_close_tag_inside_a_json_string_is_text(inner: str) -> None:
    events = parse(f"<channel:ReactDecisionOutV2>{inner}</channel:ReactDecisionOutV2>")
    assert texts(events) == [(DECISION, 0, inner)]
    assert not violations(events)


def test_a_string_left_open_runs_to_the_end_of_the_reply() -> None:
    events = parse('<channel:action>{"a": "</channel:action>')
    assert texts(events) == [(DECISION, 0, '{"a": "</channel:action>')]
    assert events[-1] == ChannelClosed(DECISION, 0, "end_of_stream")


@pytest.mark.parametrize("cut", range(1, 5))
def test_an_escape_may_be_cut_from_its_quote(cut: int) -> None:
    parser = ChannelParser()
    parser.feed("<channel:action>")
    inner = r'""\"'
    events = [*parser.feed(inner[:cut]), *parser.feed(inner[cut:]), *parser.feed("</channel:action>"), *parser.close()]
    assert coalesce(events) == [ChannelDelta(DECISION, 0, inner), ChannelClosed(DECISION, 0, "close_tag")]


def test_an_open_string_does_not_reach_into_the_next_decision() -> None:
    parser = ChannelParser()
    events = parser.feed(
        '<channel:action>{"a": "b"}\\</channel:action><channel:action>"</channel:action>"</channel:action>'
    )
    assert texts(coalesce(events)) == [(DECISION, 0, '{"a": "b"}\\'), (DECISION, 1, '"</channel:action>"')]


def test_backticks_and_fences_hide_no_close_tag() -> None:
    events = parse("<channel:code>```\nx = `a\n</channel:code>\n")
    assert texts(events) == [("code", 0, "```\nx = `a\n")]


@pytest.mark.parametrize("channel", ["thinking", "summary", "code", DECISION])
@pytest.mark.parametrize(
    "inner", ["<channel:other>", "</channel:other>", "a <channel:code> b", "<b>", "</channel:", "<"]
)
def test_any_other_tag_inside_a_channel_is_text(channel: str, inner: str) -> None:
    events = parse(f"<channel:{channel}>{inner}</channel:{channel}>")
    assert texts(events) == [(channel, 0, inner)]
    assert not violations(events)


@pytest.mark.parametrize("channel", ["thinking", "summary"])
def test_a_declared_open_tag_at_the_start_of_a_line_ends_prose_with_a_notice(channel: str) -> None:
    events = parse(f"<channel:{channel}>so\n<channel:action>{{}}</channel:action>")
    assert events[:4] == [
        ChannelOpened(channel, 0),
        ChannelDelta(channel, 0, "so\n"),
        events[2],
        ChannelClosed(channel, 0, "open_tag"),
    ]
    assert violations(events) == [(UNCLOSED, channel, 0)]
    assert texts(events)[1] == (DECISION, 0, "{}")
    assert not any(event.is_cut for event in events if isinstance(event, ChannelClosed))


@pytest.mark.parametrize("channel", ["code", DECISION])
def test_an_open_tag_at_the_start_of_a_line_is_text_in_code_and_decision(channel: str) -> None:
    events = parse(f"<channel:{channel}>\n<channel:summary>\n</channel:{channel}>")
    assert texts(events) == [(channel, 0, "\n<channel:summary>\n")]


@pytest.mark.parametrize("before", ["", " ", "\n ", "\n\t", "x", "\n\r", "\n> "])
def test_an_open_tag_elsewhere_in_a_line_is_text_in_prose(before: str) -> None:
    events = parse(f"<channel:thinking>{before}<channel:code></channel:thinking>")
    assert texts(events) == [("thinking", 0, f"{before}<channel:code>")]


def test_an_undeclared_open_tag_at_the_start_of_a_line_is_text_in_prose() -> None:
    assert texts(parse("<channel:thinking>\n<channel:x></channel:thinking>")) == [("thinking", 0, "\n<channel:x>")]


def test_text_outside_is_kept_and_reported_once_a_run() -> None:
    events = parse(" \n hello <b> \n<channel:code>x</channel:code> \n\t<channel:code>y</channel:code> bye")
    assert [event for event in events if isinstance(event, OutsideText)] == [
        OutsideText(0, "hello <b> \n"),
        OutsideText(1, "bye"),
    ]
    assert violations(events) == [(TEXT_OUTSIDE, OUTSIDE, 0), (TEXT_OUTSIDE, OUTSIDE, 1)]


def test_white_space_between_channels_is_nothing() -> None:
    assert parse(" \r\n\u00a0 ") == []


@pytest.mark.parametrize(
    "text",
    [
        "</channel:code>",
        "</channel:other>",
        "<channel:>",
        "<channel:a b>",
        "<channel: code>",
        "<Channel:code>",
        "<channel:code >",
        "<channel:code/>",
        '<channel:code lang="x">',
        "<channel:1>",
        "<channel:code",
        "<chan",
        f"<channel:{'a' * 65}>",
    ],
)
def test_what_is_not_exactly_an_open_tag_is_text_outside(text: str) -> None:
    assert texts(parse(text)) == [(OUTSIDE, 0, text)]


def test_case_counts_in_names() -> None:
    assert violations(parse("<channel:Code></channel:Code>")) == [(UNDECLARED, "Code", 0)]


def test_an_undeclared_channel_is_kept_with_its_tags_and_reported() -> None:
    events = parse("<channel:canvas>a </channel:x> <channel:code></channel:canvas><channel:canvas></channel:canvas>")
    assert [event for event in events if isinstance(event, UndeclaredText)] == [
        UndeclaredText("canvas", 0, "<channel:canvas>a </channel:x> <channel:code></channel:canvas>"),
        UndeclaredText("canvas", 1, "<channel:canvas></channel:canvas>"),
    ]
    assert violations(events) == [(UNDECLARED, "canvas", 0), (UNDECLARED, "canvas", 1)]
    assert len(events) == 4


def test_a_declared_open_tag_at_the_start_of_a_line_ends_an_undeclared_channel() -> None:
    events = parse("<channel:plan>a\n<channel:code>x</channel:code>")
    assert texts(events) == [("plan", 0, "<channel:plan>a\n"), ("code", 0, "x")]
    assert violations(events) == [(UNDECLARED, "plan", 0), (UNCLOSED, "plan", 0)]


def test_a_cut_stream_closes_its_channel() -> None:
    events = parse("<channel:thinking>so we</chan")
    assert texts(events) == [("thinking", 0, "so we</chan")]
    assert violations(events) == [(UNCLOSED, "thinking", 0)]
    closed = events[-1]
    assert isinstance(closed, ChannelClosed)
    assert closed.is_cut


def test_a_cut_stream_reports_an_undeclared_channel_as_unclosed() -> None:
    assert violations(parse("<channel:plan>a")) == [(UNDECLARED, "plan", 0), (UNCLOSED, "plan", 0)]


def test_every_violation_has_a_registered_code_and_says_what_is_expected() -> None:
    for event in parse("hi<channel:x></channel:x><channel:thinking>\n<channel:code>"):
        if isinstance(event, ProtocolViolation):
            assert event.code in CODES
            assert "channel:" in event.message


def test_text_flows_at_once_and_only_a_possible_tag_is_held_back() -> None:
    parser = ChannelParser()
    parser.feed("<channel:thinking>")
    assert parser.feed("a < b </i> <chan") == [ChannelDelta("thinking", 0, "a < b </i> <chan")]
    assert parser.feed("x</channel:th") == [ChannelDelta("thinking", 0, "x")]
    assert parser.feed("e") == [ChannelDelta("thinking", 0, "</channel:the")]
    assert parser.feed("\n<channel:co") == [ChannelDelta("thinking", 0, "\n")]
    assert parser.feed("x") == [ChannelDelta("thinking", 0, "<channel:cox")]


def test_a_stray_close_tag_is_not_held_back() -> None:
    assert ChannelParser().feed("x </channel:co")[-1] == OutsideText(0, "x </channel:co")


def test_a_name_may_have_64_characters() -> None:
    name = "a" * 64
    assert violations(parse(f"<channel:{name}></channel:{name}>")) == [(UNDECLARED, name, 0)]


def test_nothing_is_held_back_inside_a_json_string() -> None:
    parser = ChannelParser()
    parser.feed('<channel:action>{"a": "')
    assert "".join(event.text for event in parser.feed("x</channel:act")) == "x</channel:act"
    assert parser.feed('"</channel:act') == [ChannelDelta(DECISION, 0, '"')]


def test_bytes_may_be_cut_inside_a_character() -> None:
    parser = ChannelParser()
    data = "<channel:code>é😀".encode()
    events = [event for at in range(len(data)) for event in parser.feed_bytes(data[at : at + 1])]
    assert texts(coalesce(events)) == [("code", 0, "é😀")]


def test_bytes_that_end_inside_a_character_end_with_a_replacement() -> None:
    parser = ChannelParser()
    parser.feed_bytes("<channel:code>é".encode()[:-1])
    assert parser.close()[0] == ChannelDelta("code", 0, "\ufffd")


def test_a_lone_surrogate_at_the_end_becomes_a_replacement() -> None:
    parser = ChannelParser()
    assert parser.feed("<channel:code>\ud83d") == [ChannelOpened("code", 0)]
    assert parser.close()[0] == ChannelDelta("code", 0, "\ufffd")


def test_a_closed_parser_takes_no_more_and_has_no_more() -> None:
    parser = ChannelParser()
    assert parser.close() == []
    assert parser.close() == []
    with pytest.raises(ValueError, match="closed"):
        parser.feed("x")


def test_other_channels_can_be_declared() -> None:
    parser = ChannelParser([Channel("canvas", "raw", aliases=("board",))])
    events = parser.feed("<channel:board>x</channel:canvas><channel:code></channel:code>")
    assert events[:3] == [
        ChannelOpened("canvas", 0),
        ChannelDelta("canvas", 0, "x"),
        ChannelClosed("canvas", 0, "close_tag"),
    ]
    assert violations(events) == [(UNDECLARED, "code", 0)]


def test_declared_names_are_words_and_stand_once() -> None:
    with pytest.raises(ValueError, match="word"):
        ChannelParser([Channel("a b", "raw")])
    with pytest.raises(ValueError, match="twice"):
        ChannelParser([Channel("a", "raw"), Channel("b", "raw", aliases=("a",))])


def test_events_round_trip_as_tagged_json() -> None:
    events = parse("hi<channel:x></channel:x><channel:thinking>a\n<channel:code>b")
    assert msgspec.json.decode(msgspec.json.encode(events), type=list[ChannelEvent]) == events


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [
        ("\nprint(1)\n", "print(1)"),
        ("\r\nprint(1)\r\n", "print(1)"),
        ("\n\n  x\n\n", "\n  x\n"),
        ("x", "x"),
        ("\n", ""),
        ("", ""),
        ("\rx\r", "\rx\r"),
    ],
)
def test_a_body_loses_one_line_break_at_each_end(text: str, trimmed: str) -> None:
    assert trim_channel_text(text) == trimmed
