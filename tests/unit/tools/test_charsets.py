"""Decoding texts in their declared charsets."""

import pytest

from timeloom.tools.charsets import decode_text, find_codec


@pytest.mark.parametrize(
    ("charset", "codec"),
    [
        ("UTF-8", "utf_8"),
        (" utf8 ", "utf_8"),
        ("ISO-8859-1", "latin_1"),
        ("iso_8859-15", "iso8859_15"),
        ("windows-1252", "cp1252"),
        ("KOI8-R", "koi8_r"),
        ("Shift_JIS", "shift_jis"),
        ("unicode_escape", ""),
        ("rot13", ""),
        ("idna", ""),
        ("x" * 1000, ""),
    ],
)
def test_charsets_have_many_names_and_most_codecs_are_none(charset: str, codec: str) -> None:
    assert find_codec(charset) == codec
    assert not codec or decode_text("abc".encode(codec), charset) == "abc"


@pytest.mark.parametrize("data", [b"\xff", b"a\0b", b"\xff\xfea", "é".encode("latin-1")])
def test_what_is_not_exactly_a_text_is_none(data: bytes) -> None:
    assert decode_text(data) is None
    assert decode_text(b"abc", "rot13") is None
