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


def test_text_is_shown_as_the_answer() -> None:
    assert LiveNativeReply().feed_text("Yes") == [LiveDelta("answer", 0, "Yes")]


def test_the_content_of_a_file_is_shown_while_it_is_written() -> None:
    found = shown("react_write", " ", '{"path":"files/a.md","content":"one ', 'two","x":1}')
    assert found == [
        LiveDelta("canvas", 0, "one ", "files/a.md"),
        LiveDelta("canvas", 0, "two", "files/a.md"),
    ]


def test_the_content_of_an_internal_file_is_not_shown() -> None:
    assert shown("react_write", '{"path":"a","channel":"internal","content":"secret"}') == []


def test_a_call_after_text_has_an_index_of_its_own() -> None:
    live = LiveNativeReply()
    live.feed_text("I answer.")
    live.begin_call(0, "complete", runs_code=False)
    assert live.feed_call(0, '{"final_answer":"Yes"}') == [LiveDelta("answer", 1, "Yes")]


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
