"""The excerpt of a message that a search found."""

from timeloom.runtime.read.search import SNIPPET_CHARS, make_snippet


def test_a_short_text_is_shown_whole_on_one_line() -> None:
    assert make_snippet("  one\n two\t three ", "two") == "one two three"


def test_of_a_long_text_what_stands_around_the_first_word_is_shown() -> None:
    text = "before " * 100 + "Needle and " + "after " * 100
    shown = make_snippet(text, "missing NEEDLE")
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert "Needle and after" in shown
    assert len(shown) == SNIPPET_CHARS + 2


def test_without_a_place_the_beginning_is_shown() -> None:
    assert make_snippet("x" * 500, "été").startswith("xxx")
    assert make_snippet("", "") == ""
