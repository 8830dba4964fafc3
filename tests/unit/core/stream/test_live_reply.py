"""The visible part of a streaming reply, for every way of cutting it."""

import itertools
import json
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from timeloom.core.paths import MAX_PATH_CHARS
from timeloom.core.stream.channels import DECISION, THOUGHT_TAGS
from timeloom.core.stream.decision import MAX_DECISION_CHARS
from timeloom.core.stream.live_reply import LiveDelta, LiveReply

MARKS = [
    '"',
    "\\",
    "\\n",
    '\\"',
    "\\\\",
    "\\u00e9",
    "\\ud83d",
    "\\ude00",
    "\\ud83d\\ude00",
    "\\u12",
    "\n",
    "\ud83d",
    "\ude00",
]
TAGS = [
    "<",
    "</",
    "<channel:code>",
    "</channel:code>",
    f"</channel:{DECISION}>",
    "\n<channel:thinking>",
    "</channel:thinking>",
]
TEXT = st.lists(st.sampled_from([*MARKS, *TAGS, "x", "two words", "é", "😀", "{", "}"]), max_size=12).map("".join)
FIELDS = st.sampled_from(["final_answer", "notes", "path", "content", "other"])


def reply(channel: str, text: str) -> str:
    return f"<channel:{channel}>{text}</channel:{channel}>"


def writing(path: str, content: str, path_first: bool = True) -> str:
    params = {"path": path, "content": content} if path_first else {"content": content, "path": path}
    return reply(DECISION, json.dumps({"action": "call_tool", "tool_call": {"tool_id": "t", "params": params}}))


def keeping(channel: str, content: str, channel_first: bool = True) -> str:
    params = {"channel": channel, "content": content} if channel_first else {"content": content, "channel": channel}
    return reply(
        DECISION, json.dumps({"notes": "a", "tool_call": {"tool_id": "t", "params": params}, "final_answer": "b"})
    )


def saying(field: str, text: str) -> str:
    return reply(DECISION, f'{{"{field}": "{text}", "notes": "then"}}')


CALLS = st.builds(writing, TEXT, TEXT, st.booleans())
RAW = st.builds(saying, FIELDS, TEXT)
OTHERS = st.builds(reply, st.sampled_from(["thinking", "code", "summary", "unknown"]), TEXT)
KEPT = st.builds(keeping, st.sampled_from(["internal", "canvas", "internals"]) | TEXT, TEXT, st.booleans())
REPLIES = st.lists(CALLS | KEPT | RAW | OTHERS | TEXT, max_size=4).map("".join)


def pieces(text: str, sizes: Sequence[int]) -> list[str]:
    ends = itertools.takewhile(lambda end: end < len(text), itertools.accumulate(itertools.cycle(sizes)))
    return [text[a:b] for a, b in itertools.pairwise([0, *ends, len(text)])]


def shown(parts: Sequence[str], edition: int = 1) -> list[LiveDelta]:
    live = LiveReply(edition)
    return [delta for part in parts for delta in live.feed(part)]


def joined(deltas: Sequence[LiveDelta]) -> list[LiveDelta]:
    """Neighbours that are one text as one."""
    places = itertools.groupby(deltas, key=lambda delta: (delta.channel, delta.index, delta.file))
    return [LiveDelta(a, n, "".join(delta.text for delta in run), file) for (a, n, file), run in places]


@given(REPLIES, st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_what_is_shown_does_not_depend_on_the_cuts(text: str, sizes: list[int]) -> None:
    whole = joined(shown([text]))
    assert joined(shown(pieces(text, sizes))) == whole
    assert joined(shown(list(text))) == whole


@given(TEXT, st.integers(1, 6))
def test_a_call_that_stands_alone_shows_its_file(text: str, size: int) -> None:
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    params = msgspec.json.encode({"path": "files/a.md", "other": "x", "content": text}).decode()
    parts = pieces(f'<channel:action>{{"tool_id":"react.write","params":{params}}}</channel:action>', [size])
    assert joined(shown(parts, edition=3)) == ([LiveDelta("canvas", 0, text, "files/a.md")] if text else [])
    assert shown(parts, edition=2) == []


@given(TEXT, st.integers(1, 6))
@example('a\\n"b"</channel:ReactDecisionOutV2>', 1)
def test_a_string_is_shown_as_it_is_read_in_the_end(text: str, size: int) -> None:
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert joined(shown(pieces(writing("files/a.md", text), [size]))) == (
        [LiveDelta("canvas", 0, text, "files/a.md")] if text else []
    )


@pytest.mark.parametrize("channel", ["thinking", "code"])
def test_text_that_goes_on_is_shown_piece_by_piece(channel: str) -> None:
    parts = [f"<channel:{channel}>", "one\n", 'two\\" < </b>', "drei ä", "< ", f"</channel:{channel}>", "four"]
    assert [delta.text for delta in shown(parts)] == ["one\n", 'two\\" < </b>', "drei ä", "< "]


@pytest.mark.parametrize("name", THOUGHT_TAGS)
def test_the_close_tag_of_thoughts_is_not_shown(name: str) -> None:
    parts = [f"<{name}>", "hm", f"</{name}>", "<channel:code>", "x"]
    assert [(delta.channel, delta.text) for delta in shown(parts)] == [("thinking", "hm"), ("code", "x")]


@pytest.mark.parametrize("cut", range(1, len("</channel:code>")))
def test_a_close_tag_that_is_cut_is_not_shown(cut: int) -> None:
    tag = "</channel:code>"
    assert [delta.text for delta in shown(["<channel:code>", "a", tag[:cut], tag[cut:], "b"])] == ["a"]


def test_strings_that_go_on_are_shown_piece_by_piece_and_decoded() -> None:
    parts = [
        f'<channel:{DECISION}>{{"notes": "',
        "one",
        "\\ntwo <",
        '\\"\\ud83d\\ude00',
        'ä", "final_answer": "yes',
        "!",
    ]
    assert [(delta.channel, delta.text) for delta in shown(parts)] == [
        ("timeline_text", "one"),
        ("timeline_text", "\ntwo <"),
        ("timeline_text", '"😀'),
        ("timeline_text", "ä"),
        ("answer", "yes"),
        ("answer", "!"),
    ]


@pytest.mark.parametrize("cut", range(1, 12))
def test_an_escape_that_is_cut_is_shown_whole(cut: int) -> None:
    escape = "\\ud83d\\ude00"
    parts = [f'<channel:{DECISION}>{{"notes": "a', escape[:cut], escape[cut:], "b"]
    assert "".join(delta.text for delta in shown(parts)) == "a😀b"


def test_a_surrogate_pair_that_is_cut_is_shown_whole() -> None:
    for start in ("<channel:thinking>a", f'<channel:{DECISION}>{{"notes": "a'):
        assert "".join(delta.text for delta in shown([start, "\ud83d", "\ude00", "b"])) == "a😀b"
        assert "".join(delta.text for delta in shown([start, "\ud83d", "b", "\ude00", "c"])) == "a\ufffdb\ufffdc"


def test_an_empty_piece_shows_nothing() -> None:
    for start in ("", "<channel:thinking>a", f'<channel:{DECISION}>{{"notes": "a'):
        assert joined(shown([start, "", "b", ""])) == joined(shown([f"{start}b"]))
        assert all(delta.text for delta in shown([start, ""]))


def test_a_line_that_ended_on_the_short_way_lets_the_next_channel_begin() -> None:
    parts = ["<channel:summary>", "one", " two\n", "<channel:code>", "x"]
    assert [(delta.channel, delta.text) for delta in shown(parts)] == [("code", "x")]


def test_what_nobody_sees_is_not_shown() -> None:
    parts = [
        "<channel:summary>",
        "one",
        " two",
        "</channel:summary>",
        f"<channel:{DECISION}>",
        '{"other": "',
        "x",
        '"}',
    ]
    assert shown([*parts, "outside", "more", "<channel:unknown>", "text"]) == []
    assert shown(["".join(parts)]) == []


def test_after_what_is_no_json_nothing_is_shown() -> None:
    assert [delta.text for delta in shown([f'<channel:{DECISION}>{{"notes": "a', "b\n", "c", '"', "d"])] == ["a", "b"]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_the_text_of_an_internal_file_is_not_shown(size: int) -> None:
    text = keeping("internal", 'one\ntwo "three" four five') + keeping("canvas", "six")
    told = joined(shown(pieces(text, [size])))
    assert [(delta.channel, delta.index, delta.text) for delta in told] == [
        ("timeline_text", 0, "a"),
        ("answer", 0, "b"),
        ("timeline_text", 1, "a"),
        ("canvas", 1, "six"),
        ("answer", 1, "b"),
    ]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_text_of_a_file_for_the_chat_is_shown_there_if_its_path_is_known(size: int) -> None:
    params = {"path": "a.md", "channel": "timeline_text", "content": "in the chat"}
    named = reply(DECISION, json.dumps({"notes": "a", "tool_call": {"tool_id": "t", "params": params}}))
    told = joined(shown(pieces(named + keeping("timeline_text", "unnamed"), [size])))
    assert [(delta.channel, delta.text, delta.file) for delta in told] == [
        ("timeline_text", "a", ""),
        ("timeline_text", "in the chat", "a.md"),
        ("timeline_text", "a", ""),
        ("canvas", "unnamed", ""),
        ("answer", "b", ""),
    ]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_text_of_a_file_is_shown_before_it_is_said_to_be_internal(size: int) -> None:
    told = joined(shown(pieces(keeping("internal", "one", channel_first=False), [size])))
    assert [delta.text for delta in told if delta.channel == "canvas"] == ["one"]


def test_a_path_that_is_too_long_stops_growing() -> None:
    path = "p" * (3 * MAX_PATH_CHARS)
    (last, *_) = reversed(shown(pieces(writing(path, "text"), [MAX_PATH_CHARS])))
    assert (last.text, MAX_PATH_CHARS < len(last.file) < len(path)) == ("text", True)


def test_no_more_of_a_decision_is_shown_than_is_read() -> None:
    opening = '{"final_answer": "'
    text = f"<channel:{DECISION}>{opening}" + "x" * MAX_DECISION_CHARS
    for size in (len(text), 9_973):
        assert sum(len(delta.text) for delta in shown(pieces(text, [size]))) == MAX_DECISION_CHARS - len(opening)


def in_channels(path: str, content: str, notes: str = "", answer: str = "") -> str:
    """A call with its text in raw channels, and an answer."""
    call = json.dumps({"action": "call_tool", "tool_call": {"tool_id": "t", "params": {"path": path}}})
    parts = [reply("notes", f"\n{notes}\n") if notes else "", reply("action", call), reply("content", f"\n{content}\n")]
    if answer:
        parts += [reply("action", '{"action": "complete"}'), reply("final_answer", f"\n{answer}\n")]
    return "\n".join(parts)


NAMES = st.sampled_from(["final_answer", "content", "patch", "notes", "action", "thinking"])
RAW_REPLIES = st.lists(CALLS | KEPT | RAW | OTHERS | st.builds(reply, NAMES, TEXT) | TEXT, max_size=5).map("".join)


@given(RAW_REPLIES, st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_what_is_shown_of_raw_channels_does_not_depend_on_the_cuts(text: str, sizes: list[int]) -> None:
    whole = joined(shown([text], 2))
    assert joined(shown(pieces(text, sizes), 2)) == whole
    assert joined(shown(list(text), 2)) == whole


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_raw_channels_are_shown_as_the_fields_of_a_decision(size: int) -> None:
    text = in_channels("a.md", "one\n</~channel:content>", "I write.", "It says </~channel:content>.")
    assert joined(shown(pieces(text, [size]), 2)) == [
        LiveDelta("timeline_text", 0, "I write."),
        LiveDelta("canvas", 0, "one\n</~channel:content>", "a.md"),
        LiveDelta("answer", 1, "It says </channel:content>."),
    ]


def test_a_raw_answer_is_shown_piece_by_piece() -> None:
    parts = ["<channel:final_answer>", "\nIt ", "rains", " in Oslo.\n", "Take", "\n", "</channel:final_answer>", "x"]
    assert [(delta.channel, delta.index, delta.text) for delta in shown(parts, 2)] == [
        *(("answer", 0, text) for text in ("It ", "rains", " in Oslo.", "\nTake"))
    ]
    assert shown(parts, 1) == []


def test_notes_after_their_actions_are_shown_with_them() -> None:
    text = reply("action", "{}") + reply("notes", "One.") + reply("action", "{}") + reply("notes", "Two.")
    assert shown([text], 2) == [LiveDelta("timeline_text", 0, "One."), LiveDelta("timeline_text", 1, "Two.")]


def test_a_field_in_two_forms_is_shown_once() -> None:
    text = (
        reply("action", '{"final_answer": "Rain."}') + reply("final_answer", "Rain.") + reply("final_answer", "Rain.")
    )
    assert shown([text], 2) == [LiveDelta("answer", 0, "Rain.")]
    assert shown([reply("final_answer", "Rain.") * 2], 2) == [LiveDelta("answer", 0, "Rain.")]


def test_a_patch_and_the_text_of_an_internal_file_are_not_shown_in_raw_channels() -> None:
    call = '{"tool_call": {"params": {"path": "a.md", "channel": "internal"}}}'
    text = reply("action", call) + reply("content", "secret") + reply("patch", "@@ -1 +1 @@")
    for size in (1, 1000):
        assert shown(pieces(text, [size]), 2) == []


def test_a_cut_raw_channel_is_shown_up_to_the_cut() -> None:
    assert joined(shown(["<channel:final_answer>\nIt rai", "ns"], 2)) == [LiveDelta("answer", 0, "It rains")]
