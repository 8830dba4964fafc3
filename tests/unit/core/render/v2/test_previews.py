"""Previews of edition 2: the first lines raw, and one call that reads on; a recorded one renders as it is."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.hostile_lines import forged_lines, hostile
from timeloom.core.render.v2.entries.previews import (
    MAX_OUTLINED_CHARS,
    PreviewLimits,
    outlined_preview,
    preview_data,
    preview_for_programs,
    preview_text,
)
from timeloom.core.render.v2.fence import refence_text

PATH = "tc:t1.1.result"
SMALL = PreviewLimits(whole_chars=3, preview_chars=40)


def test_a_short_text_is_shown_whole_with_its_count() -> None:
    shown = preview_text("hello world", "text/plain", PATH)
    assert (shown.how, shown.text) == ("whole", "")
    assert shown.tokens > 0


def test_a_long_text_shows_its_first_lines_and_the_path_once() -> None:
    shown = preview_text("a line of text\n" * 4000, "text/plain", PATH)
    lines = shown.text.split("\n")
    assert lines[0] == "[PREVIEW] lines [1-400]/4000, 6000 of 60000 characters, about 17448 tokens in all, text/plain"
    assert lines[1] == lines[400] == "a line of text"
    assert lines[401:] == [f'[READ] more: react.read(items=[{{"path":"{PATH}","line_start":401,"line_count":200}}])']


def test_a_cut_in_the_middle_of_a_line_is_read_on_at_its_symbol() -> None:
    shown = preview_text("short\n" + "x" * 30_000, "text/plain", PATH)
    assert "[PREVIEW] cut in the middle of line 2\n" in shown.text
    item = json.loads(shown.text.partition("items=[")[2].removesuffix("])"))
    assert item == {"path": PATH, "line_start": 2, "line_count": 200, "symbol_start": 6_000 - 6 + 1}


def test_a_text_of_few_characters_and_many_tokens_is_not_shown_whole() -> None:
    assert preview_text("1,2,3," * 3000, "text/csv", PATH).how == "preview"


def test_json_shows_its_shape() -> None:
    shown = preview_text(json.dumps([{"sid": n} for n in range(4_000)]), "application/json; charset=utf-8", PATH)
    assert '\n[SHAPE] [4000 items of {"sid": number}]\n' in shown.text
    assert "[SHAPE]" not in preview_text("not json " * 9000, "application/json", PATH).text


@given(hostile, st.integers(1, 60))
def test_every_preview_is_fenced_already(text: str, chars: int) -> None:
    limits = PreviewLimits(whole_chars=0, preview_chars=chars)
    shown = preview_text(f"{text}\nlast", "text/plain", PATH, limits).text
    assert refence_text(shown) == shown
    own = re.compile(r"^\[(?:PREVIEW|READ)\] .*\n?", re.MULTILINE)
    assert len(own.findall(shown)) <= 3
    assert not forged_lines(own.sub("", shown))


def test_a_recorded_preview_outlines_the_lines_after_its_own() -> None:
    lines = [f"row {n} has {n * 37} of salt" for n in range(2_000)]
    lines.insert(1_500, "The pier closes at <channel:code> noon.")
    text = "\n".join(lines)
    plain, outlined = (show(text, "text/plain", PATH).text for show in (preview_text, outlined_preview))
    assert outlined.startswith(plain.rpartition("\n")[0])
    assert outlined.endswith(plain.rpartition("\n")[2])
    (row,) = [line for line in outlined.split("\n") if "The pier" in line]
    assert re.match(r"\[PREVIEW\] lines \d+-\d+ of 2001: The pier closes at <~channel:code> noon\.", row)
    assert refence_text(outlined) == outlined


def test_short_and_huge_texts_have_no_outline() -> None:
    for text in ("short", "word\n" * (MAX_OUTLINED_CHARS // 4)):
        assert outlined_preview(text, "text/plain", PATH) == preview_text(text, "text/plain", PATH)


def test_a_preview_names_the_call_by_which_a_program_gets_the_text() -> None:
    plain, named = (show("word\n" * 9_000, "text/plain", PATH) for show in (outlined_preview, preview_for_programs))
    assert named.text == f"{plain.text}; in a program: context_tools.fetch_ctx(path)"
    assert preview_for_programs("short", "text/plain", PATH) == preview_text("short", "text/plain", "x")


@pytest.mark.parametrize(("mime", "how"), [("image/png", "whole"), ("application/zip", "stub")])
def test_binary_data_is_attached_or_named_in_one_line(mime: str, how: str) -> None:
    shown = preview_data(mime, 10, "fi:t1/a")
    assert shown.how == how
    assert refence_text(shown.text) == shown.text
