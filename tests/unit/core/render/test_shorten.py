"""Shortened entries show head and tail and say which lines are missing."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ExternalEvent,
    Followup,
    ResultContent,
    ResultStatus,
    Shown,
    UserPrompt,
)
from timeloom.core.blocks.block import ERASED
from timeloom.core.ids import CallId, MessageId, TurnId
from timeloom.core.payload import ref_of
from timeloom.core.render.entry_text import MAX_WORDS_CHARS
from timeloom.core.render.foreign_text.fence import PREVIEW_MARKS, unfence
from timeloom.core.render.v1.entries.shorten import shorten_entry
from timeloom.core.timeline import Draft, Entry, to_entry

TS = "2026-02-09T02:14:32Z"
TURN = TurnId("turn_1")
CALL = CallId("c1")
PATH = "tc:turn_1.c1.result"
LINES = "".join(f"line {n}\n" for n in range(1, 1_001))


def entry_of(block: AnyBlock) -> Entry:
    return to_entry(Draft(turn_id=TURN, ts=TS, block=block), 1)


def result(text: str) -> Entry:
    return entry_of(ResultContent(tool_call_id=CALL, artifact_path=PATH, mime="text/plain", text=text))


def missing_lines(text: str) -> tuple[int, int]:
    (found,) = re.findall(r"; lines (\d+) to (\d+)", text)
    return int(found[0]), int(found[1])


def test_a_message_keeps_head_and_tail_and_names_the_missing_lines() -> None:
    text = shorten_entry(entry_of(UserPrompt(text=LINES)), 2_000)
    assert text.startswith("[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\nline 1\n")
    assert text.endswith("\nline 1000")
    first, last = missing_lines(text)
    assert f"line {first - 1}\n[READ] " in text
    assert f"]\nline {last + 1}\n" in text or f")\nline {last + 1}\n" in text
    item = json.loads(text.partition("react.read(items=[")[2].partition("])")[0])
    assert item == {"path": "ar:turn_1.user.prompt", "line_start": first, "line_count": last - first + 1}


def test_a_result_keeps_its_fence_and_its_tool() -> None:
    text = shorten_entry(result(LINES), 2_000, tool_id="t.look")
    assert text.startswith("[TOOL RESULT c1].result t.look\n")
    assert all(line.startswith(("| line ", "[")) for line in text.split("\n"))
    assert text.endswith("\n| line 1000")


def test_one_long_line_is_read_on_at_its_symbol() -> None:
    text = shorten_entry(result("word " * 4_000), 2_000)
    shown = text.split("\n")[2].removeprefix("| ")
    assert f'; in line 1: react.read(items=[{{"path":"{PATH}","line_start":1,"line_count":1,"symbol_start":' in text
    assert f'"symbol_start":{len(shown) + 1}}}' in text


def test_the_shortest_form_is_the_path() -> None:
    assert (
        shorten_entry(result(LINES), 0)
        == f'[READ] {len(LINES)} more characters: react.read(["{PATH}"]); lines 1 to 1000'
    )


def test_a_message_beyond_the_longest_shown_one_has_its_end_too() -> None:
    long = "w" * 10 + "\n" + "x" * (MAX_WORDS_CHARS + 20_000) + "\nthe end"
    ref = ref_of(long.encode())
    said = entry_of(Followup(message_id=MessageId("m1"), text=ref))
    assert shorten_entry(said, 5_000, {ref: long.encode()}).endswith("\nthe end")
    whole = shorten_entry(said, 2 * MAX_WORDS_CHARS, {ref: long.encode()})
    assert whole.endswith(long)


def test_other_entries_are_cut_as_they_are_shown() -> None:
    preview = Shown("preview", 9, "[PREVIEW] lines [1-9]/99\n" + "| part\n" * 99)
    ref = ref_of(b"x" * 99_999)
    stored = ResultContent(tool_call_id=CALL, artifact_path=PATH, mime="text/plain", text=ref, shown=preview)
    text = shorten_entry(entry_of(stored), 300)
    assert all(line.startswith(("| part", "[")) for line in text.split("\n"))
    assert text.count('more characters: react.read(["') == 1
    assert shorten_entry(entry_of(Completion(text="word " * 99)), 50).endswith('.assistant.completion.1"])')
    assert (
        shorten_entry(entry_of(UserPrompt(text=ERASED)), 9_999)
        == f"[USER MESSAGE]\n[path: ar:turn_1.user.prompt]\n{ERASED}"
    )
    event = ExternalEvent(kind="alert", message_id=MessageId("m1"), text=LINES * 9)
    assert "[READ] " in shorten_entry(entry_of(event), 400)


@given(st.text(min_size=1), st.integers(0, 400))
def test_every_character_is_shown_or_counted(text: str, chars: int) -> None:
    status = entry_of(ResultStatus(tool_call_id=CALL, text=text))
    shown = shorten_entry(status, chars)
    body = "\n".join(shown.split("\n")[2:]) if shown.startswith("[TOOL") else shown
    assert re.search(r"^\[READ\] \d+ more characters: ", body, re.MULTILINE) or unfence(body) in (text, text[:-1])
    assert all(
        re.match(r"\|", line) or line.startswith(("[TOOL", "[path", *PREVIEW_MARKS))
        for line in shown.split("\n")
        if line
    )
