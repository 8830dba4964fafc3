"""A window shows as much of a text as its bounds allow, its line range, and where to continue."""

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.tokens import estimate_tokens
from timeloom.tools.react.windows import LineSpan, ReadWindow, WindowBounds, cut_window, split_lines

WIDE = WindowBounds(10_000, 10_000)
TEN = "".join(f"line {n}\n" for n in range(1, 11))


def window(text: str, bounds: WindowBounds = WIDE, span: LineSpan | None = None) -> ReadWindow:
    return cut_window(text, bounds, estimate_tokens, span)


def test_a_text_within_the_bounds_comes_verbatim() -> None:
    seen = window("a\r\n\tb\n\n")
    assert (seen.text, seen.is_whole, seen.lines, seen.more) == ("a\r\n\tb\n\n", True, "[1-3]/3", None)


def test_an_empty_text_has_no_lines() -> None:
    assert window("").lines == "[]/0"


def test_a_range_is_numbered_and_says_which_lines_it_shows() -> None:
    seen = window(TEN, span=LineSpan(9, 5))
    assert seen.text == "line 9\nline 10\n"
    assert seen.numbered == "[READ] [9-10]/10\n9| line 9\n10| line 10\n"
    assert seen.more is None


def test_a_range_after_the_end_shows_nothing_and_says_so() -> None:
    assert window(TEN, span=LineSpan(99, 2)).numbered == "[READ] []/10\n"


def test_what_does_not_fit_is_named_for_the_next_read() -> None:
    seen = window(TEN, WindowBounds(28, 1000))
    assert seen.numbered.startswith("[READ] [1-2]/10; line 3 is cut")
    assert seen.more == LineSpan(3, None, seen.cut_symbols + 1)
    rest = window(TEN, span=LineSpan(5, 3))
    assert (rest.first, rest.last) == (5, 7)


def test_a_cut_inside_a_line_is_marked_apart_from_the_full_lines() -> None:
    seen = window("short\n" + "x" * 500, WindowBounds(60, 1000))
    assert seen.lines == "[1-1]/2"
    assert f"; line 2 is cut: its symbols 1-{seen.cut_symbols} are shown\n" in seen.numbered


def test_the_end_of_a_cut_line_is_not_counted_as_a_full_line() -> None:
    seen = window("abcdef\nghi\n", span=LineSpan(1, 2, 4))
    assert seen.numbered == "[READ] [2-2]/2; line 1 is shown from its symbol 4 on\n1| def\n2| ghi\n"


def test_tokens_bound_a_window_as_symbols_do() -> None:
    seen = window("é" * 4_000 + "\n", WindowBounds(10_000, 100))
    assert 50 < seen.tokens <= 100
    assert len(seen.text) == seen.cut_symbols
    assert cut_window("x\n", WindowBounds(100, 1), lambda _: 2).text == "x\n"


@given(st.text("ab\n", max_size=80), st.integers(1, 60))
def test_reading_on_and_on_gives_the_whole_text(text: str, symbols: int) -> None:
    parts: list[str] = []
    seen = window(text, WindowBounds(symbols, 10_000), LineSpan())
    for _ in range(200):
        parts.append(seen.text)
        if seen.more is None:
            break
        seen = window(text, WindowBounds(symbols, 10_000), seen.more)
    assert split_lines("".join(parts)) == split_lines(text)


def test_a_line_cannot_pass_for_the_heading() -> None:
    seen = window("x\n[READ] [1-9]/9\n<channel:code>\n", span=LineSpan(1, 3))
    assert seen.numbered.split("\n")[1:] == ["1| x", "2| [READ] [1-9]/9", "3| <~channel:code>", ""]


@given(st.text("ab\r\n\u2028\x85 \t", max_size=40))
def test_a_range_up_to_the_end_changes_no_character(text: str) -> None:
    assert window(text, span=LineSpan(1, 999)).text == text
