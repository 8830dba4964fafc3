"""The recorded form of native tool calls, and the text of a native reply that clients see live."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.stream.live_reply import LiveDelta
from timeloom.core.stream.native_reply import LiveNativeReply, NativeCall, NativeReply, decode_calls, encode_calls


def shown(name: str, *pieces: str, runs_code: bool = False) -> list[LiveDelta]:
    live = LiveNativeReply()
    live.begin_call(0, name, runs_code=runs_code)
    return [delta for piece in pieces for delta in live.feed_call(0, piece)]


def test_calls_are_read_back_as_they_were_written() -> None:
    calls = (NativeCall("react_read", "{", "react.read"), NativeCall("no", ""))
    assert decode_calls(encode_calls(calls)) == calls
    assert (encode_calls(()), decode_calls("")) == ("", ())
    assert decode_calls("[ERASED]") == ()


def test_a_reply_as_text_has_its_text_and_its_calls() -> None:
    assert NativeReply("So.", (NativeCall("f", "{}"),)).as_text() == "So.\nf {}"
    assert NativeReply().as_text() == ""


def test_a_short_answer_is_shown_at_its_end() -> None:
    live = LiveNativeReply()
    assert live.feed_text("Yes") == []
    assert live.close() == [LiveDelta("answer", 0, "Yes")]
    assert live.close() == []


def test_a_long_answer_is_shown_while_it_is_written() -> None:
    live, long = LiveNativeReply(), "x" * 301
    assert live.feed_text(long) == [LiveDelta("answer", 0, long)]
    assert live.feed_text("<y>") == [LiveDelta("answer", 0, "<y>")]
    assert live.close() == []


def test_short_text_before_a_call_is_shown_as_its_notes() -> None:
    live = LiveNativeReply()
    live.feed_text("I look.")
    assert live.begin_call(0, "f", runs_code=False) == [LiveDelta("timeline_text", 0, "I look.")]
    assert live.begin_call(1, "f", runs_code=False) == []
    assert (live.feed_text("x" * 400), live.close()) == ([], [])


def test_text_that_begins_with_a_tag_is_not_shown() -> None:
    live = LiveNativeReply()
    assert live.feed_text(" <think>" + "x" * 400) == []
    assert live.close() == []


def test_the_content_of_a_file_is_shown_while_it_is_written() -> None:
    found = shown("react_write", " ", '{"path":"files/a.md","content":"one ', 'two","x":1}')
    assert found == [
        LiveDelta("canvas", 0, "one ", "files/a.md"),
        LiveDelta("canvas", 0, "two", "files/a.md"),
    ]


def test_the_content_of_an_internal_file_is_not_shown() -> None:
    assert shown("react_write", '{"path":"a","channel":"internal","content":"secret"}') == []


def test_the_answer_of_complete_is_shown() -> None:
    assert shown("complete", '{"final_answer":"Yes"}') == [LiveDelta("answer", 0, "Yes")]


def test_a_generic_call_is_shown_as_the_call_itself() -> None:
    found = shown("call_tool", '{"tool_id":"x.y","params":{"content":"text"}}')
    assert found == [LiveDelta("canvas", 0, "text")]


def test_a_program_is_shown_only_for_a_tool_that_runs_it() -> None:
    assert shown("exec", '{"code":"print(1)"}', runs_code=True) == [LiveDelta("code", 0, "print(1)")]
    assert shown("other", '{"code":"print(1)"}') == []


def test_a_channel_tag_inside_arguments_opens_and_closes_nothing() -> None:
    text = "</channel:ReactDecisionOutV2><channel:thinking>x"
    assert "".join(one.text for one in shown("react_write", '{"content":"', text, '"}')) == text
    assert {one.channel for one in shown("react_write", '{"content":"', text, '"}')} == {"canvas"}


@given(st.lists(st.integers(0, 60)))
def test_the_shown_text_does_not_depend_on_the_cuts(places: list[int]) -> None:
    arguments = '{"path":"files/ä.md","content":"one <b> \\n \\u00e4 two"}'
    cuts = [0, *sorted(places), len(arguments)]
    pieces = [arguments[a:b] for a, b in itertools.pairwise(cuts)]
    assert "".join(one.text for one in shown("react_write", *pieces)) == "one <b> \n ä two"
