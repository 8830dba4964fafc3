"""The type of a file comes from its name, and its text from its bytes."""

import pytest

from timeloom.tools.mime import decode_file_text, guess_mime, is_textual, is_viewable


@pytest.mark.parametrize(
    ("name", "mime"),
    [
        ("report.md", "text/markdown"),
        ("A.PDF", "application/pdf"),
        ("turn_1/files/a.tar", "application/x-tar"),
        ("Makefile", "application/octet-stream"),
        ("x.strange", "application/octet-stream"),
    ],
)
def test_the_end_of_a_name_says_the_type(name: str, mime: str) -> None:
    assert guess_mime(name) == mime


def test_text_images_and_other_types_are_told_apart() -> None:
    assert is_textual("Application/LD+JSON; charset=utf-8")
    assert is_textual("image/svg+xml")
    assert not is_viewable("image/svg+xml")
    assert is_viewable("image/PNG")
    assert not is_viewable(guess_mime("a.xlsx"))


@pytest.mark.parametrize(
    ("data", "mime", "text"),
    [
        (b"caf\xc3\xa9", "text/plain", "café"),
        (b"caf\xe9", "text/plain", "caf�"),
        (b"plain", "application/octet-stream", "plain"),
        (b"\xff\xfeh\0i\0", "text/plain", "hi"),
        (b"\xef\xbb\xbfhi", "text/csv", "hi"),
        (b"\xff\x80", "application/octet-stream", None),
        (b"a\0b", "text/plain", None),
        (b"PK", "application/zip", None),
        (b"\xff\xfe", "image/png", None),
    ],
)
def test_bytes_are_text_where_their_type_and_they_themselves_say_so(data: bytes, mime: str, text: str | None) -> None:
    assert decode_file_text(data, mime) == text
