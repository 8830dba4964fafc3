"""Ranges and names of downloads, as headers say them."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.codes import CodedError
from timeloom.server.http.byte_ranges import parse_range
from timeloom.server.http.downloads import content_disposition, content_type

SIZE = 100


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, None),
        ("", None),
        ("bytes=0-9", (0, 10)),
        ("Bytes=0-9", (0, 10)),
        ("bytes=99-", (99, 100)),
        ("bytes=10-1000", (10, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-1000", (0, 100)),
        ("bytes=0-0", (0, 1)),
        ("bytes=00-007", (0, 8)),
        (f"bytes=0-{'9' * 5000}", (0, 100)),
        ("bytes=9-1", None),
        ("bytes=0-9,20-29", None),
        ("bytes=a-b", None),
        ("bytes=-", None),
        ("bytes=1.5-2", None),
        ("bytes=²-", None),
        ("lines=0-9", None),
    ],
)
def test_a_range_is_a_part_of_the_file_or_not_understood(header: str | None, wanted: tuple[int, int] | None) -> None:
    assert parse_range(header, SIZE) == wanted


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=-0", f"bytes={'9' * 5000}-"])
def test_a_range_without_a_byte_is_refused(header: str) -> None:
    with pytest.raises(CodedError) as refused:
        parse_range(header, SIZE)
    assert refused.value.code == "range_unsatisfiable"


def test_the_end_of_an_empty_file_is_all_of_it() -> None:
    assert parse_range("bytes=-5", 0) is None


@given(st.text(max_size=40) | st.from_regex(r"bytes=[0-9]{0,20}-[0-9]{0,20}", fullmatch=True), st.integers(0, 10**12))
def test_any_header_gives_bytes_of_the_file_or_all_or_none(header: str, size: int) -> None:
    try:
        wanted = parse_range(header, size)
    except CodedError as error:
        assert error.code == "range_unsatisfiable"
        return
    assert wanted is None or 0 <= wanted[0] < wanted[1] <= size


def named(name: str) -> str:
    """The name that a browser reads: the extended one where there is one."""
    header = content_disposition(name, "attachment", "text/html")
    assert header.isascii()
    assert header.isprintable()
    found = re.fullmatch(r"""attachment; filename="([^"\\%]*)"(?:; filename\*=UTF-8''([A-Za-z0-9._~%-]+))?""", header)
    assert found
    return unquote(found[2]) if found[2] else found[1]


@pytest.mark.parametrize(
    "name",
    [
        "plain.txt",
        "two words.txt",
        'a"b.html',
        "a\\b.txt",
        "naïve résumé.pdf",
        "日本語.csv",
        "100%.txt",
        "x;filename=evil.exe",
        "x'y.txt",
        "%22.txt",
        "a\r\nset-cookie: x=1.txt",
        "\u200bhidden.txt",
    ],
)
def test_a_file_keeps_its_name_whatever_it_is(name: str) -> None:
    assert named(name) == name


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_no_name_gets_out_of_its_header(name: str) -> None:
    assert named(name) == name


def test_only_what_cannot_run_is_shown() -> None:
    for mime, shown in (
        ("image/png", "inline"),
        ("Text/Plain; charset=latin-1", "inline"),
        ("text/html", "attachment"),
        ("image/svg+xml", "attachment"),
        ("application/pdf", "attachment"),
        ("image/png\r\nx: y", "attachment"),
    ):
        assert content_disposition("a", "inline", mime).startswith(f"{shown};")
    assert content_disposition("a.png", "attachment", "image/png") == 'attachment; filename="a.png"'


def test_a_type_is_one_of_its_form_or_any_bytes() -> None:
    assert content_type("TEXT/html; charset=utf-16") == "text/html; charset=utf-8"
    assert content_type("application/json") == "application/json"
    for mime in ("", "x", "a/b\r\nset-cookie: c=1", "é/b", "*/*", "a/" + "b" * 200):
        assert content_type(mime) == "application/octet-stream"
