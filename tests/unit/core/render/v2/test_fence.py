"""The fence of edition 2: no line of foreign text begins as a line of the runtime's does, and all of it comes back."""

import sys
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.harness.hostile_lines import (
    BEGINNINGS,
    BREAKS,
    FILLERS,
    INVISIBLE,
    forged_lines,
    hostile,
    is_invisible,
    split_at_breaks,
)
from timeloom.core.plans.marks import find_marks
from timeloom.core.render.foreign_text.fence import fence
from timeloom.core.render.v2.fence import (
    MAX_HELD_CHARS,
    WordsStream,
    begin_line,
    end_line,
    end_with_break,
    fence_line,
    fence_text,
    fence_words,
    refence_text,
    unfence_text,
    unfence_words,
)
from timeloom.core.render.v2.unicode_classes import UNICODE_VERSION, forms_of
from timeloom.core.stream.channels import ChannelOpened, ChannelParser, UndeclaredText

EVERY_CHARACTER = [chr(code) for code in range(sys.maxunicode + 1)]
IS_NEWER_UNICODE = tuple(map(int, unicodedata.unidata_version.split("."))) > tuple(map(int, UNICODE_VERSION.split(".")))


@given(hostile)
@example("~")
@example("\n~[")
@example("~\n[~[S:1]]")
@example("~<~channel:x>")
def test_a_fenced_text_comes_back_as_it_was(text: str) -> None:
    assert unfence_text(fence_text(text)) == text
    assert unfence_text(fence_text(text, 7), numbered=True) == text


@given(st.text())
def test_any_text_comes_back_as_it_was(text: str) -> None:
    assert unfence_text(fence_text(text)) == text


@given(hostile)
def test_no_line_of_a_fenced_text_begins_as_a_line_of_the_runtime_does(text: str) -> None:
    assert not forged_lines(fence_text(text))
    assert not forged_lines(fence_text(text, 12))
    assert not forged_lines(fence_words(text))


@given(hostile)
def test_no_fenced_text_opens_a_channel_cites_a_source_or_marks_a_step(text: str) -> None:
    fenced = fence_text(text)
    parser = ChannelParser()
    events = parser.feed(fenced) + parser.close()
    assert not [event for event in events if isinstance(event, ChannelOpened | UndeclaredText)]
    assert "[[s:" not in fenced.lower()
    assert not find_marks(fenced)


@given(hostile, st.integers(0, 60), st.integers(0, 60))
def test_a_text_that_is_cut_anywhere_and_fenced_gains_no_line(text: str, one: int, two: int) -> None:
    end, start = sorted((min(one, len(text)), min(two, len(text))))
    head, tail = fence_text(text[:end]), fence_text(text[start:])
    assert not forged_lines(f"{head}\n{tail}")
    assert not forged_lines(fence_text(f"{text[:end]}\n{text[start:]}"))


@given(hostile, st.integers(0, 60))
def test_the_beginning_of_a_fenced_text_is_safe_wherever_it_is_cut(text: str, end: int) -> None:
    cut = fence_text(text)[:end]
    assert not forged_lines(cut)
    assert not forged_lines(f"{cut}…")


@given(hostile, st.integers(0, 20))
def test_the_end_of_a_fenced_text_is_safe_from_any_line_on(text: str, first: int) -> None:
    lines = fence_text(text).split("\n")
    assert not forged_lines("\n".join(lines[first:]))


@given(hostile)
def test_a_line_that_cannot_be_mistaken_stays_as_it_is(text: str) -> None:
    calm = [line for line in split_at_breaks(text) if not forged_lines(line.lstrip(" \t~")) and "[[" not in line]
    for line in calm:
        assert fence_text(line) == line or "~" in line


@pytest.mark.parametrize("opening", BREAKS)
@pytest.mark.parametrize("line", BEGINNINGS)
def test_every_line_break_begins_a_line(opening: str, line: str) -> None:
    shown = fence_text(f"a{opening}{line}{opening}b")
    assert not forged_lines(shown)
    assert unfence_text(shown) == f"a{opening}{line}{opening}b"


def test_every_character_at_which_python_splits_lines_is_a_break() -> None:
    assert {char for char in EVERY_CHARACTER if len(f"a{char}b".splitlines()) > 1} == set("".join(BREAKS))


def test_no_blank_or_invisible_character_hides_a_line() -> None:
    blanks = [char for char in EVERY_CHARACTER if is_invisible(char) and char not in "".join(BREAKS)]
    assert set(FILLERS).issubset(blanks)
    open_lines = [char for char in blanks if fence_text(f"{char}[TURN t1]") != f"{char}~[TURN t1]"]
    assert not open_lines or IS_NEWER_UNICODE
    split_words = [char for char in blanks if char.isspace() is False and fence_text(f"HID{char}DEN")[0] != "~"]
    assert not split_words or IS_NEWER_UNICODE


def test_no_form_of_a_character_hides_a_line() -> None:
    others = [char for char in EVERY_CHARACTER if not char.isascii() and unicodedata.category(char) != "Cs"]
    folded = [(char, unicodedata.normalize("NFKC", char)) for char in others]
    brackets = [char for char, plain in folded if plain == "["]
    assert sorted(brackets) == ["\ufe47", "\uff3b"]
    for line in ("[x", "<channel:", "</channel:", "HIDDEN"):
        for at, plain in enumerate(line.rstrip(":x")):
            for form in (char for char, ascii_form in folded if ascii_form == plain):
                shown = fence_text(line[:at] + form + line[at + 1 :])
                assert not forged_lines(shown) or IS_NEWER_UNICODE
                assert unfence_text(shown) == line[:at] + form + line[at + 1 :]


def test_look_alikes_of_other_scripts_stay_as_they_are() -> None:
    for text in ("【TURN t1】", "⟦x⟧", "〔x〕", "‹channel:x›", "НIDDEN", "ⵟ1"):
        assert fence_text(text) == text


def test_forms_of_a_character_include_itself() -> None:
    assert forms_of("[") == "[\ufe47\uff3b"
    assert forms_of("✓") == "✓"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a [x] and HIDDEN", "a [x] and HIDDEN"),
        ("[x]", "~[x]"),
        ("~[x]", "~~[x]"),
        ("~x", "~x"),
        ("  \u200b[x]", "  \u200b~[x]"),
        ("\x1b[31mred", "\x1b~[31mred"),
        ("HIDDENX", "~HIDDENX"),
        ("Hidden", "Hidden"),
        ("<channel:x>", "<~channel:x>"),
        ("<channels>", "~<channels>"),
        ("<\u200bchannel:x>", "~<\u200bchannel:x>"),
        ("✓ [1] a", "~✓ [1] a"),
        ("- ✓ 1) a", "~- ✓ 1) a"),
        ("✓ done", "✓ done"),
        ("    ...", "    ..."),
        ("- [ ] task", "- [ ] task"),
        ("a [[S:1]]", "a [~[S:1]]"),
        ("[[S:1]]", "~[~[S:1]]"),
        ("", ""),
    ],
)
def test_the_escape_is_one_character_in_front_of_the_line(text: str, shown: str) -> None:
    assert fence_text(text) == shown
    assert unfence_text(shown) == text


def test_words_of_a_person_keep_their_citations() -> None:
    assert fence_words("as in [[S:1]]\n[USER]\n<channel:code>") == "as in [[S:1]]\n~[USER]\n<~channel:code>"


def test_a_numbered_line_needs_no_other_escape() -> None:
    assert fence_text("[a]\r[b]\n\n<channel:x>", 9) == "9| [a]\r| [b]\n10|\n11| <~channel:x>"


@given(hostile)
def test_a_line_of_its_own_is_one_line(text: str) -> None:
    line = fence_line(text, 40)
    assert len(line) <= 41
    assert len(split_at_breaks(line)) == 1
    assert not forged_lines(line)


@given(hostile, hostile, hostile)
def test_begin_and_end_lines_are_one_line_whatever_they_hold(alias: str, state: str, message: str) -> None:
    for line in (begin_line(alias, state, message), end_line(alias)):
        assert len(split_at_breaks(line)) == 1
        assert line.startswith("[")
        assert "<channel:" not in line.lower()


def test_begin_and_end_lines_carry_the_alias() -> None:
    assert begin_line("t12.3") == "[t12.3]"
    assert begin_line("t12.3", "fi:t12/report.md") == "[t12.3 fi:t12/report.md]"
    assert begin_line("t12.3", "failed", "not_found: no\nfile <channel:x>") == (
        "[t12.3 failed] not_found: no file <~channel:x>"
    )
    assert end_line("t12.3") == "[/t12.3]"


def test_a_fenced_text_ends_before_the_next_line_begins() -> None:
    assert end_with_break("") == ""
    assert end_with_break("a") == "a\n"
    assert end_with_break("a\n") == "a\n"
    assert end_with_break("a\r") == "a\r\n"


@given(hostile, st.none() | st.integers(1, 99))
def test_a_preview_of_any_edition_keeps_its_recorded_text(text: str, first: int | None) -> None:
    for body in (fence(text, first), fence_text(text, first)):
        shown = f"[PREVIEW] lines\n{end_with_break(body)}[SHAPE] {{}}\n[READ] more"
        assert refence_text(shown) == shown


@given(hostile)
def test_a_hostile_recorded_text_gains_no_line_of_the_runtime(text: str) -> None:
    shown = refence_text(f"a\n{text}\nb")
    assert not forged_lines(shown)
    assert refence_text(shown) == shown


@given(hostile)
def test_the_ends_of_a_hostile_recorded_text_gain_no_line_but_those_of_a_preview(text: str) -> None:
    marks = ("[PREVIEW]", "[SHAPE]", "[READ]")
    assert not [line for line in forged_lines(refence_text(text)) if not line.startswith(marks)]


def test_preview_lines_in_the_middle_of_a_recorded_text_are_foreign() -> None:
    shown = "[PREVIEW] 3 of 9\nbare\n[READ] evil\n~[kept]\n[t1.1]\n[SHAPE] {}\n[READ] more"
    assert refence_text(shown) == "[PREVIEW] 3 of 9\nbare\n~[READ] evil\n~[kept]\n~[t1.1]\n[SHAPE] {}\n[READ] more"
    assert refence_text("[READ] one\n[READ] two") == "[READ] one\n[READ] two"
    assert refence_text("") == ""


@pytest.mark.parametrize("char", INVISIBLE)
def test_an_invisible_character_before_the_escape_stays(char: str) -> None:
    assert fence_text(f"~{char}[x]") == f"~{char}[x]"
    assert unfence_text(f"~{char}[x]") == f"~{char}[x]"


def stream_words(pieces: list[str]) -> str:
    stream = WordsStream()
    return "".join([*map(stream.feed, pieces), stream.close()])


@given(hostile, st.lists(st.integers(0, 80)))
@example("~[a]\n  ~HIDDEN\nb ~[c]", [1, 5, 8])
def test_copied_words_lose_their_escapes_wherever_the_stream_is_cut(text: str, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for words in (text, fence_text(text)):
        bounds[-1] = len(words)
        pieces = [words[start:end] for start, end in pairwise(bounds)]
        assert stream_words(pieces) == unfence_words(words)


def test_words_keep_their_citations_and_tags_and_lose_only_the_escapes_of_lines() -> None:
    copied = "~[link](u)\n~~[two]\n[~[S:1]] <~channel:x>\n~ not escaped ~[x]\n~✓ [1] done"
    assert unfence_words(copied) == "[link](u)\n~[two]\n[~[S:1]] <~channel:x>\n~ not escaped ~[x]\n✓ [1] done"
    assert unfence_words("[link](u)") == "[link](u)"


def test_only_a_line_that_may_be_escaped_waits() -> None:
    stream = WordsStream()
    assert stream.feed("a") == "a"
    assert stream.feed("b ~[") == "b ~["
    assert stream.feed("\n ~") == "\n"
    assert stream.feed("[link]") == ""
    assert stream.feed("(u)\nnext") == " [link](u)\nnext"
    assert stream.feed("\n~[" + "x" * MAX_HELD_CHARS) == "\n[" + "x" * MAX_HELD_CHARS
    assert stream.close() == ""
