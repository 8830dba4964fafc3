"""Channels that an agent declares: their definition, and their instances in a reply, for every way of cutting it."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.codes import CodedError
from timeloom.core.stream.channels import DECISION, RAW_FIELDS, THOUGHT_TAGS, ChannelParser, coalesce
from timeloom.core.stream.declared import (
    MAX_DECLARED,
    MAX_PURPOSE_CHARS,
    ChannelInstance,
    DeclaredChannel,
    LiftedReply,
    check_declared,
    lift_channels,
    parsed_channels,
)
from timeloom.core.stream.live_reply import LiveReply

CHART = DeclaredChannel(name="chart", mime="application/json", purpose="numbers", widget="bars")
LOG = DeclaredChannel(name="log", mime="text/plain")
DECLARED = (CHART, LOG)

FRAGMENTS = [
    *(f"<channel:{name}>" for name in ("chart", "log", "thinking", "action", "final_answer", "summary", "other")),
    *(f"</channel:{name}>" for name in ("chart", "log", "thinking", "action", "final_answer", "summary", "other")),
    *("\n<channel:chart>", "\n</channel:chart>\n", "<~channel:chart>", "</~channel:chart>", "<chan", "</channel:ch"),
    *(
        "<think>",
        "</think>",
        '{"action":"complete"}',
        '"',
        "\\",
        "\n",
        "\r\n",
        "~",
        "[1]",
        "x",
        "é",
        "\ud83d",
        "\ude00",
    ),
]
REPLIES = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=16).map("".join)
SIZES = st.lists(st.integers(1, 20), min_size=1, max_size=6)


def pieces(text: str, sizes: list[int]) -> list[str]:
    cut: list[str] = []
    at = 0
    while at < len(text):
        size = sizes[len(cut) % len(sizes)]
        cut.append(text[at : at + size])
        at += size
    return cut


@given(REPLIES, SIZES)
def test_the_events_do_not_depend_on_the_cuts(text: str, sizes: list[int]) -> None:
    def read(parts: list[str]) -> object:
        parser = ChannelParser(parsed_channels(2, DECLARED))
        return coalesce([*(event for part in parts for event in parser.feed(part)), *parser.close()])

    assert read(pieces(text, sizes)) == read([text])


@given(REPLIES, SIZES)
def test_readers_see_live_what_is_kept(text: str, sizes: list[int]) -> None:
    live = LiveReply(2, declared=DECLARED)
    seen: defaultdict[tuple[str, int], str] = defaultdict(str)
    for piece in pieces(text, sizes):
        for delta in live.feed(piece):
            seen[delta.channel, delta.index] += delta.text
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # Text is withheld inside unclosed thoughts, and a line break at the end of a channel that was not closed.
    for one in lift_channels(joined, DECLARED, 2).instances:
        if not one.is_cut and "<think" not in text and "<channel:thinking" not in text:
            assert seen[one.name, one.index] == one.text


@given(REPLIES)
def test_the_rest_of_a_reply_has_no_declared_channel(text: str) -> None:
    lifted = lift_channels(text, DECLARED, 2)
    assert lift_channels(lifted.rest, DECLARED, 2).instances == ()


def test_a_channel_is_lifted_and_the_rest_stays() -> None:
    lifted = lift_channels(
        '<think>hm</think>\n<channel:chart>\n{"a": 1}\n</channel:chart>\nword\n'
        "<channel:final_answer>Hi</channel:final_answer>",
        DECLARED,
        2,
    )
    assert lifted.instances == (ChannelInstance("chart", 0, '{"a": 1}'),)
    assert lifted.violations == ()
    assert "chart" not in lifted.rest
    assert "<channel:thinking>hm</channel:thinking>" in lifted.rest
    assert "word" in lifted.rest


def test_a_reply_without_declared_channels_is_its_own_rest() -> None:
    text = "<think>hm</think> <channel:other>x</channel:other>"
    assert lift_channels(text, DECLARED, 2) == LiftedReply(text)
    shown = "<channel:final_answer>write <channel:chart></channel:final_answer>"
    assert lift_channels(shown, DECLARED, 2) == LiftedReply(shown)


@pytest.mark.parametrize(
    "around",
    [
        f'<channel:{DECISION}>{{"a": "%s"}}</channel:{DECISION}>',
        *(f"<channel:{name}>\n%s\n</channel:{name}>" for name in (*RAW_FIELDS, "code", "log")),
        "<channel:thinking>\n%s\n</channel:thinking>",
    ],
)
def test_no_text_of_another_channel_opens_one(around: str) -> None:
    quoted = "<channel:chart>[1]</channel:chart>"
    assert [one for one in lift_channels(around % quoted, DECLARED, 2).instances if one.name == "chart"] == []


def test_the_end_of_a_reply_cuts_a_channel() -> None:
    lifted = lift_channels("<channel:action>{}</channel:action><channel:log>half", DECLARED, 2)
    assert lifted.instances == (ChannelInstance("log", 0, "half", is_cut=True),)
    assert [one.code for one in lifted.violations] == ["protocol_violation.channel_unclosed"]


def test_a_channel_that_interrupts_thoughts_is_remarked() -> None:
    lifted = lift_channels("<channel:thinking>\nhm\n<channel:log>a</channel:log>", DECLARED, 2)
    assert [one.text for one in lifted.instances] == ["a"]
    assert [one.channel for one in lifted.violations] == ["thinking"]
    assert lifted.rest.strip() == "<channel:thinking>\nhm\n</channel:thinking>"


def test_instances_are_numbered_and_tags_inside_are_unescaped() -> None:
    lifted = lift_channels("<channel:log></~channel:log></channel:log><channel:log></channel:log>", DECLARED, 2)
    assert lifted.instances == (ChannelInstance("log", 0, "</channel:log>"), ChannelInstance("log", 1, ""))


def test_the_type_says_whether_the_content_is_json() -> None:
    assert CHART.is_json
    assert DeclaredChannel(name="map", mime="application/geo+json").is_json
    assert not LOG.is_json


@pytest.mark.parametrize(
    "name",
    [
        *("", "Chart", "1st", "a.b", "a b", "x" * 33, "chart>", "answer", "canvas", "internal", "python", "final"),
        *("thinking", "action", "code", "summary", "stdout", "toolcall", "tool_call", "reactdecision", *RAW_FIELDS),
        *(tag for tag in THOUGHT_TAGS if tag.islower() and ":" not in tag),
    ],
)
def test_a_name_that_is_taken_or_malformed_is_refused(name: str) -> None:
    with pytest.raises(CodedError, match="channel") as refused:
        DeclaredChannel(name=name, mime="text/plain")
    assert refused.value.code == "channel_malformed"


@pytest.mark.parametrize(
    "fields",
    [
        {"mime": ""},
        {"mime": "json"},
        {"mime": "text/plain; a=b"},
        {"widget": "../x"},
        {"widget": "x" * 65},
        {"purpose": "x" * (MAX_PURPOSE_CHARS + 1)},
    ],
)
def test_a_malformed_field_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(CodedError, match="chart"):
        DeclaredChannel(**{"name": "chart", "mime": "text/plain"} | fields)


def test_an_agent_declares_each_channel_once() -> None:
    assert check_declared([CHART, LOG]) == DECLARED
    with pytest.raises(CodedError, match="declared once"):
        check_declared([CHART, CHART])
    many = [DeclaredChannel(name=f"c{n}", mime="text/plain") for n in range(MAX_DECLARED + 1)]
    with pytest.raises(CodedError, match="at most 16"):
        check_declared(many)
