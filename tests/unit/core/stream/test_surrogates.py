"""Surrogate halves: joined across cuts, replaced when alone."""

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.stream.surrogates import SurrogateJoiner, replace_lone_surrogates

HALVES = st.text(st.sampled_from("a\u00e9\U0001f600\ud83d\ude00\udbff\udc00"), max_size=12)


def slowly_mended(text: str) -> str:
    out: list[str] = []
    for char in text:
        if "\udc00" <= char <= "\udfff" and out and "\ud800" <= out[-1] <= "\udbff":
            high = out.pop()
            out.append(chr(0x10000 + ((ord(high) - 0xD800) << 10) + (ord(char) - 0xDC00)))
        else:
            out.append(char)
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in out)


@given(HALVES)
def test_mended_text_joins_pairs_and_replaces_the_rest(text: str) -> None:
    assert replace_lone_surrogates(text) == slowly_mended(text)


@given(HALVES, st.integers(1, 4))
def test_the_cut_does_not_matter(text: str, size: int) -> None:
    feed = SurrogateJoiner()
    pieces = [feed.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(pieces) + feed.close() == slowly_mended(text)


def test_a_half_is_given_back_once() -> None:
    feed = SurrogateJoiner()
    assert feed.feed("a\ud83d") == "a"
    assert feed.close() == "\ufffd"
    assert feed.close() == ""
