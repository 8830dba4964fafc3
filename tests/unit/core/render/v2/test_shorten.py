"""Shortened entries of edition 2 show head and tail inside their own lines, and gain no line of the runtime."""

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.hostile_lines import forged_lines, hostile
from tests.harness.stand_in_names import NAMES
from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    Followup,
    ResultContent,
    ResultStatus,
    Shown,
    Thinking,
    ToolCall,
    UserPrompt,
)
from timeloom.core.blocks.block import ERASED
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.render.entry_text import EntryText, Payloads
from timeloom.core.render.v2.entries.shorten import shorten_text
from timeloom.core.render.v2.fence import fence_text, fence_words
from timeloom.core.timeline import Draft, Entry, to_entry

TS = "2026-02-09T02:14:32Z"
TURN = TurnId("turn_1")
CALL = CallId("c1")
LINES = "".join(f"line {n}\n" for n in range(1, 1_001))
READ = 'react.read(["tc:t1.1.result"])'


def entry_of(block: AnyBlock) -> Entry:
    return to_entry(Draft(turn_id=TURN, ts=TS, block=block), 1)


def message(text: str) -> tuple[EntryText, Entry]:
    return EntryText(f"[USER]\n{fence_words(text)}\n\n"), entry_of(UserPrompt(text=text))


def result(text: str) -> tuple[EntryText, Entry]:
    shown = fence_text(text).removesuffix("\n")
    block = ResultContent(tool_call_id=CALL, artifact_path="tc:turn_1.c1.result", mime="text/plain", text=text)
    return EntryText(f"[t1.1]\n{shown}\n[/t1.1]\n\n"), entry_of(block)


def shorten(shown: str, block: AnyBlock, chars: int, payloads: Payloads | None = None) -> str:
    return shorten_text(EntryText(shown), entry_of(block), chars, NAMES, payloads or {})


def test_a_message_keeps_head_and_tail_and_names_the_missing_lines() -> None:
    text = shorten_text(*message(LINES), 2_000, NAMES)
    assert text.startswith("[USER]\nline 1\n")
    assert text.endswith("\nline 1000")
    item = json.loads(text.partition("react.read(items=[")[2].partition("])")[0])
    first, count = item["line_start"], item["line_count"]
    assert item["path"] == "ar:t1.user.prompt"
    assert f"line {first - 1}\n[READ] " in text
    assert f"])\nline {first + count}\n" in text


def test_a_result_keeps_its_begin_and_end_line() -> None:
    text = shorten_text(*result(LINES), 2_000, NAMES)
    assert text.startswith("[t1.1]\nline 1\n")
    assert text.endswith("\nline 1000\n[/t1.1]")
    assert f"more characters: {READ}; lines " in text
    whole = shorten_text(*result("a\n[b]"), 2_000, NAMES)
    assert whole == "[t1.1]\na\n~[b]\n[/t1.1]"


def test_one_long_line_is_read_on_at_its_symbol() -> None:
    text = shorten_text(*result("word " * 4_000), 2_000, NAMES)
    shown = text.split("\n")[1]
    assert '; in line 1: react.read(items=[{"path":"tc:t1.1.result","line_start":1,"line_count":1,' in text
    assert f'"symbol_start":{len(shown) + 1}}}' in text


def test_the_shortest_form_is_the_path() -> None:
    assert shorten_text(*result(LINES), 0, NAMES) == f"[READ] {len(LINES)} more characters: {READ}; lines 1 to 1000"


def test_an_answer_keeps_its_channel() -> None:
    text = "The report says this.\n" * 99
    action = '<channel:action>{"action":"complete"}</channel:action>'
    shown = f"{action}\n<channel:final_answer>\n{text}</channel:final_answer>\n"
    short = shorten(shown, Completion(text=text), 500)
    assert short.startswith(
        '<channel:action>{"action":"complete"}</channel:action>\n<channel:final_answer>\nThe report'
    )
    assert short.endswith("\nThe report says this.\n</channel:final_answer>")
    assert 'react.read(["ar:t1.assistant.completion.1"]); lines ' in short


def test_a_message_beyond_the_longest_shown_one_has_its_end_too() -> None:
    long = "w" * 10 + "\n" + "x" * 5_000 + "\nthe end"
    ref = ref_of(long.encode())
    said = Followup(message_id=MessageId("m1"), text=ref)
    shown = f"[USER FOLLOWUP ar:t1.external.followup.m1]\n{long[:900]}\n[READ] more\n\n"
    short = shorten(shown, said, 1_500, {ref: long.encode()})
    assert short.startswith("[USER FOLLOWUP ar:t1.external.followup.m1]\nwwwwwwwwww\n")
    assert short.endswith("\nthe end")
    assert shorten(shown, said, 9_000, {ref: long.encode()}).endswith(long)


def test_a_recorded_preview_is_cut_at_whole_lines_inside_its_own_lines() -> None:
    preview = "[PREVIEW] lines [1-99]/999\n" + "part\n" * 99 + "[READ] more"
    ref = ref_of(b"x" * 99_999)
    block = ResultContent(
        tool_call_id=CALL,
        artifact_path="tc:turn_1.c1.result",
        mime="text/plain",
        text=ref,
        shown=Shown("preview", 9, preview),
    )
    short = shorten(f"[t1.1]\n{preview}\n[/t1.1]\n\n", block, 300)
    assert short.startswith("[t1.1]\n[PREVIEW] lines [1-99]/999\npart\n")
    assert short.endswith("\npart\n[READ] more\n[/t1.1]")
    assert short.count(f"more characters: {READ}\n") == 1


def test_a_cut_channel_is_closed() -> None:
    notes = "I am reading the report.\n" * 40
    short = shorten(f"<channel:notes>\n{notes}</channel:notes>\n", Thinking(text=notes, round=1), 300)
    assert re.fullmatch(r"<channel:notes>\n(I am.*\n)+\[READ\] .*\n(I am.*\n)+</channel:notes>", short)
    params = "x" * 700
    shown = (
        f'<channel:action>{{"action":"{params}"}}</channel:action>\n<channel:content>\n{params}\n</channel:content>\n'
    )
    call = ToolCall(tool_call_id=CALL, tool_id="t.x", params="{}")
    assert re.fullmatch(r'<channel:action>\{"action":"x+</channel:action>\n\[READ\] .*', shorten(shown, call, 300))
    longer = shorten(shown, call, 1_300)
    assert re.search(r"</channel:action>\n<channel:content>x*</channel:content>\n\[READ\] [^\n]*\Z", longer)
    assert shorten(shown, call, 9_000) == shown.strip()


def test_other_entries_are_cut_as_they_are_shown() -> None:
    line = f"[NOTICE] {'word ' * 99}"
    short = shorten(f"{line}\n\n", ToolCall(tool_call_id=CALL, tool_id="t.x", params="{}"), 100)
    assert re.fullmatch(r"\[NOTICE\] [word ]+\n\[READ\] \d+ more characters: [^\n]*", short)
    assert shorten(f"[USER]\n{ERASED}\n\n", UserPrompt(text=ERASED), 9_999) == f"[USER]\n{ERASED}"
    status = ResultStatus(tool_call_id=CALL, text="not what is shown")
    assert shorten("[t1.1 ok]\n\n", status, 99) == "[t1.1 ok]"


def test_an_attached_image_is_named() -> None:
    made = EntryText("[t1.1 fi:t1/a.png]\n\n", b"x", "image/png", 9)
    block = ResultContent(tool_call_id=CALL, artifact_path="fi:turn_1.files/a.png", mime="image/png", data=b"x")
    short = shorten_text(made, entry_of(block), 99, NAMES)
    assert short == '[t1.1 fi:t1/a.png]\n[READ] attached image/png: react.read(["fi:t1/a.png"])'


@pytest.mark.parametrize("make", [message, result])
@given(text=hostile.filter(bool), chars=st.integers(0, 200))
def test_a_shortened_text_gains_no_line_of_the_runtime(
    make: Callable[[str], tuple[EntryText, Entry]], text: str, chars: int
) -> None:
    short = shorten_text(*make(text), chars, NAMES)
    own = re.compile(r"\A\[(?:USER|t1\.1)\]\n|^\[READ\] \d+ more characters: [^\n]*\n?|\n?\[/t1\.1\]\Z", re.MULTILINE)
    assert not forged_lines(own.sub("", short))
