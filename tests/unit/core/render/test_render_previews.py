"""Previews: small content is complete; large content shows its size, its structure and how to read it."""

import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import Shown
from timeloom.core.blocks.extract_payloads import INLINE_BYTES
from timeloom.core.render.foreign_text.fence import refence
from timeloom.core.render.foreign_text.json_shape import MAX_SHAPE_CHARS, describe_json_shape
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.v1.entries.previews import (
    MAX_OUTLINED_CHARS,
    PreviewLimits,
    add_hint,
    outlined_preview,
    preview_data,
    preview_for_programs,
    preview_lines,
    preview_text,
)

PATH = "tc:turn_1.c1.result"


def test_a_short_text_is_shown_whole_with_its_count() -> None:
    shown = preview_text("hello world", "text/plain", PATH)
    assert (shown.how, shown.text) == ("whole", "")
    assert shown.tokens > 0


def test_a_long_text_shows_its_first_lines_and_how_to_read_on() -> None:
    shown = preview_text("a line of text\n" * 4000, "text/plain", PATH)
    lines = shown.text.split("\n")
    assert lines[0] == "[PREVIEW] lines [1-400]/4000, 6000 of 60000 characters, about 17448 tokens in all, text/plain"
    assert lines[1] == "1| a line of text"
    assert lines[400] == "400| a line of text"
    assert len(lines) == 402
    assert lines[401] == (
        f'[READ] more: react.read(["{PATH}"]), or a part: react.read(items='
        f'[{{"path":"{PATH}","line_start":401,"line_count":200}}])'
    )


def test_a_cut_in_the_middle_of_a_line_is_marked() -> None:
    shown = preview_text("x" * 30_000, "text/plain", PATH)
    assert "[PREVIEW] 6000 of 30000 characters" in shown.text
    assert "[PREVIEW] cut in the middle of line 1\n" in shown.text


def test_a_text_of_few_characters_and_many_tokens_is_not_shown_whole() -> None:
    assert preview_text("1,2,3," * 3000, "text/csv", PATH).how == "preview"


def test_json_shows_its_shape() -> None:
    rows = [
        {"sid": n, "title": "t", "deep": {"a": {"b": {"c": {"d": 1}}}}, "none": None, "ok": True} for n in range(900)
    ]
    shown = preview_text(json.dumps(rows), "application/json; charset=utf-8", PATH)
    shape = next(line for line in shown.text.split("\n") if line.startswith("[SHAPE]"))
    assert shape == (
        '[SHAPE] [900 items of {"sid": number, "title": string, "deep": {"a": {"b": {1 keys}}}, '
        '"none": null, "ok": boolean}]'
    )


def test_what_only_says_it_is_json_has_no_shape() -> None:
    assert "[SHAPE]" not in preview_text("not json " * 9000, "application/json", PATH).text


def test_every_preview_is_fenced_already() -> None:
    hostile = "[TURN x]\n<channel:code>[[S:1]]\u2028HIDDEN — x\n" * 2000
    shown = preview_text(hostile, "text/plain", PATH)
    assert refence(shown.text) == shown.text


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ([], "[]"),
        ({}, "{}"),
        ([1, "a"], "[2 items of number and 1 other shapes]"),
        ([[[[[1]]]]], "[1 items of [1 items of [1 items of [1 items of [1 items]]]]]"),
        (1.5, "number"),
        ({"k" * 99: 1}, '{"' + "k" * 59 + '…": number}'),
        ({"[[S:1]]\n": 1}, '{"[~[S:1]]\\n": number}'),
    ],
)
def test_a_shape_names_keys_kinds_and_counts(value: object, shape: str) -> None:
    assert describe_json_shape(json.dumps(value)) == shape


def test_a_shape_is_bounded() -> None:
    wide = {f"key {n}": n for n in range(100)}
    assert describe_json_shape(json.dumps(wide)).endswith("… 20 more keys}")
    assert len(describe_json_shape(json.dumps({f"key {n} " * 5: wide for n in range(100)}))) == MAX_SHAPE_CHARS


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\ud800"])
def test_what_is_no_json_has_no_shape(text: str) -> None:
    assert describe_json_shape(text) == ""


@given(st.text(max_size=20))
def test_json_in_a_line_is_one_line_and_means_the_same(text: str) -> None:
    line = json_line([text])
    assert len(line.splitlines()) == 1
    if "~" not in line:
        assert json.loads(line) == [text]


@pytest.mark.parametrize(
    ("mime", "size", "how"),
    [
        ("image/png", 10, "whole"),
        ("IMAGE/PNG; q=1", 10, "whole"),
        ("image/png", 6 * 1024 * 1024, "stub"),
        ("application/pdf", 6 * 1024 * 1024, "whole"),
        ("application/pdf", 11 * 1024 * 1024, "stub"),
        ("image/svg+xml", 10, "stub"),
        ("application/zip", 10, "stub"),
    ],
)
def test_pictures_and_documents_are_attached_up_to_their_caps(mime: str, size: int, how: str) -> None:
    assert preview_data(mime, size, "fi:turn_1.files/a").how == how


def test_caps_are_settings() -> None:
    assert preview_data("image/png", 10, PATH, PreviewLimits(image_bytes=9)).text.startswith(
        "[READ] not attached: image/png, 10 bytes, larger than the 9 bytes"
    )
    assert preview_text("hello", "text/plain", PATH, PreviewLimits(whole_chars=3, preview_chars=2)).how == "preview"


@pytest.mark.parametrize(("text", "last"), [("a\nb\n", 8), ("a\nb", 8), ("a", 7), ("\n", 7)])
def test_a_range_of_lines_keeps_the_numbers_of_the_file(text: str, last: int) -> None:
    shown = preview_lines(text, 7, 90, "fi:turn_1.files/a.md")
    assert shown.text.startswith(f"[PREVIEW] lines [7-{last}]/90 of fi:turn_1.files/a.md\n7|")
    assert refence(shown.text) == shown.text


def test_a_preview_names_the_call_by_which_a_program_gets_the_text() -> None:
    plain, named = (
        show("word\n" * 9_000, "text/plain", "tc:turn_1.c1.result") for show in (outlined_preview, preview_for_programs)
    )
    assert named.text == f'{plain.text}, or in a program: context_tools.fetch_ctx("tc:turn_1.c1.result")'
    assert preview_for_programs("short", "text/plain", "tc:turn_1.c1.result") == preview_text(
        "short", "text/plain", "x"
    )


def test_a_recorded_preview_outlines_the_lines_after_its_own() -> None:
    lines = [f"row {n} has {n * 37} of salt" for n in range(2_000)]
    lines.insert(1_500, "The pier closes at <channel:code> noon.")
    text = "\n".join(lines)
    plain, outlined = (show(text, "text/plain", PATH).text for show in (preview_text, outlined_preview))
    assert outlined.startswith(plain.rpartition("\n")[0])
    assert outlined.endswith(plain.rpartition("\n")[2])
    (row,) = [line for line in outlined.split("\n") if "The pier" in line]
    first, last = map(int, re.findall(r"\d+", row)[:2])
    assert first <= 1_501 <= last
    assert row.startswith(f"[PREVIEW] lines {first}-{last} of 2001: The pier closes at <~channel:code> noon.")
    assert refence(outlined) == outlined


def test_short_and_huge_texts_have_no_outline() -> None:
    for text in ("short", "word\n" * (MAX_OUTLINED_CHARS // 4)):
        assert outlined_preview(text, "text/plain", PATH) == preview_text(text, "text/plain", PATH)


def test_a_text_that_is_stored_apart_gets_a_hint_at_its_content() -> None:
    whole = Shown("whole", 1)
    assert add_hint(whole, "a" * INLINE_BYTES, "text/plain") == whole
    assert add_hint(whole, "These are fares.\n" + "x" * INLINE_BYTES, "text/plain").hint.startswith(
        "These are fares. xxx"
    )
    rows = msgspec.json.encode([{"place": "x" * 50, "price": 3}] * 700).decode()
    shown = add_hint(Shown("preview", 1, "[PREVIEW] 6 of 9"), rows, "application/json; charset=utf-8")
    assert (shown.text, shown.hint) == ("[PREVIEW] 6 of 9", describe_json_shape(rows))
