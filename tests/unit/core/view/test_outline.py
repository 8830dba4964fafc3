"""Outlines: ranges that cover a text, each with the excerpts that tell it apart."""

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.view.outline import COMMON, MAX_RANGES, TextRange, WordCounts, find_excerpts, split_ranges

TABLE = "\n".join(f"row {n} has {n * 37} of salt" for n in range(2_000))


@given(st.text("ab \n", max_size=300), st.integers(1, 40))
def test_ranges_cover_a_text_and_name_its_lines(text: str, chars: int) -> None:
    ranges = split_ranges(text, chars)
    assert "".join(text[one.start : one.end] for one in ranges) == text
    assert len(ranges) <= 2 * MAX_RANGES + 1 or len(text) <= chars * len(ranges)
    for one in ranges:
        assert one.first_line == text.count("\n", 0, one.start) + 1
        assert one.last_line == text.count("\n", 0, one.end - 1) + 1
        assert one.symbol == one.start - text.rfind("\n", 0, one.start)


def test_a_range_is_named_in_the_terms_of_a_read() -> None:
    assert TextRange(0, 9, 1, 3).words == "lines 1-3"
    assert TextRange(0, 9, 2, 2).words == "line 2"
    assert TextRange(8_000, 9_000, 2, 2, 8_001).words == "line 2 from symbol 8001"


def test_an_excerpt_shows_the_line_that_differs() -> None:
    lines = TABLE.split("\n")
    lines.insert(1_500, "The pier closes at noon.")
    text = "\n".join(lines)
    (found,) = [one for one in split_ranges(text) if one.first_line <= 1_501 <= one.last_line]
    assert find_excerpts(text, found, WordCounts([text]), 2).texts[0] == "The pier closes at noon."


def test_an_excerpt_inside_a_line_is_marked() -> None:
    text = "salt " * 100 + "pier-7 " + "salt " * 100
    excerpt = find_excerpts(text, split_ranges(text)[0], WordCounts([text]), 1, 30).texts[0]
    assert excerpt == "…salt salt pier-7 salt salt sal…"


def test_numbers_and_parts_of_words_tell_nothing() -> None:
    counts = WordCounts(["row 17 has 4711 of salt in turn_1_a"])
    assert [counts.commonness(word) for word in ("4711", "of", "sal", "turn_1_a")] == [COMMON] * 4
    assert counts.commonness("salt") == counts.commonness("SALT") == 1
    assert WordCounts([r"a\nsalt salt"]).commonness("salt") == 8


def test_a_range_without_words_has_no_excerpt() -> None:
    found = find_excerpts("--- ---", split_ranges("--- ---")[0], WordCounts(["--- ---"]), 2)
    assert (found.texts, found.commonness) == ((), COMMON)
