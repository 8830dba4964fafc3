"""Source rows: their JSON form, their bounds and their admission to the pool."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.payload import BlobRef, ref_of
from timeloom.core.sources import (
    MAX_BASE64_CHARS,
    MAX_TEXT_CHARS,
    NewSource,
    SourceError,
    SourceRow,
    is_eligible_mime,
    make_manual_source,
    prepare_for_pool,
    row_from_json,
    row_to_json,
    source_from_json,
    to_compact_row,
    with_sid,
)

FULL = {
    "sid": 7,
    "source_type": "web",
    "title": "A page",
    "url": "https://example.com/a",
    "text": "short",
    "content": "the whole body",
    "mime": "text/html",
    "size_bytes": 14,
    "base64": "QUJD",
    "artifact_path": "fi:turn_1.files/a.html",
    "physical_path": "turn_1/files/a.html",
    "rn": "ef:1",
    "hosted_uri": "s3://bucket/a",
    "key": "k",
    "domain": "example.com",
    "favicon": "https://example.com/i.png",
    "published_time_iso": "2026-01-01T00:00:00Z",
    "modified_time_iso": "2026-01-02T00:00:00Z",
    "fetched_time_iso": "2026-01-03T00:00:00Z",
    "provider_rank": 1,
    "weighted_rank": 0.5,
    "objective_relevance": 0.9,
    "query_relevance": 0.8,
    "authority": "high",
}

WORDS = st.text(st.characters(codec="utf-8"), max_size=20)
CONTENTS = st.one_of(WORDS, WORDS.map(lambda text: ref_of(text.encode())))
NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
UNKNOWN = st.dictionaries(WORDS.filter(lambda name: name not in FULL and name != "favicon_url"), JSON, max_size=4)


@st.composite
def rows(draw: st.DrawFn) -> SourceRow:
    """Rows of every kind, with every field set or not."""
    row = SourceRow(
        sid=draw(st.integers(1, 999_999)),
        source_type=draw(st.sampled_from(("web", "file", "attachment", "manual"))),
        title=draw(WORDS),
        url=draw(WORDS),
        text=draw(WORDS),
        content=draw(CONTENTS),
        mime=draw(WORDS),
        size_bytes=draw(st.none() | st.integers(0, 2**63 - 1)),
        base64=draw(st.none() | st.binary(min_size=1, max_size=30)),
        physical_path=draw(WORDS),
        favicon=draw(WORDS),
        fetched_time_iso=draw(WORDS),
        provider_rank=draw(NUMBERS),
        authority=draw(NUMBERS | WORDS),
    )
    return row_from_json({**row_to_json(row), **draw(UNKNOWN)})


def malformed(value: object) -> str:
    with pytest.raises(SourceError) as caught:
        row_from_json(value)
    assert caught.value.code == "source_malformed"
    return str(caught.value)


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def test_every_field_of_a_row_survives_json() -> None:
    assert row_to_json(row_from_json(FULL)) == FULL


def test_the_json_of_a_row_starts_with_its_id_and_omits_what_is_not_set() -> None:
    assert list(row_to_json(SourceRow(sid=1, title="x")).items()) == [
        ("sid", 1),
        ("source_type", "web"),
        ("title", "x"),
    ]


def test_unknown_fields_survive_json_even_one_named_extra() -> None:
    given_row = {"sid": 1, "source_type": "web", "extra": {"b": [None, {"c": 1}], "a": 2.5}, "provider": "x"}
    assert row_to_json(row_from_json(given_row)) == given_row


def test_equal_unknown_fields_make_equal_rows_whatever_their_order() -> None:
    assert row_from_json({"sid": 1, "x": 1, "y": {"a": 1, "b": 2}}) == row_from_json(
        {"sid": 1, "y": {"b": 2, "a": 1}, "x": 1}
    )


@given(rows())
def test_any_row_survives_json(row: SourceRow) -> None:
    wire = msgspec.json.decode(msgspec.json.encode(row_to_json(row)))
    assert row_from_json(wire) == row
    assert row_to_json(row_from_json(wire)) == wire


@given(st.lists(rows(), max_size=3).map(tuple))
def test_rows_survive_in_a_record_as_they_are(some: tuple[SourceRow, ...]) -> None:
    assert msgspec.json.decode(msgspec.json.encode(some), type=tuple[SourceRow, ...]) == some
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(some), type=tuple[SourceRow, ...]) == some


def test_a_body_may_be_a_reference() -> None:
    ref = BlobRef(sha256="ab", size_bytes=3)
    row = row_from_json(
        {"sid": 1, "content": {"sha256": "ab", "size_bytes": 3}, "base64": {"sha256": "ab", "size_bytes": 3}}
    )
    assert (row.content, row.base64) == (ref, ref)


@pytest.mark.parametrize(
    ("given_icons", "icon", "unknown"),
    [
        ({"favicon_url": "u"}, "u", ""),
        ({"favicon": "u", "favicon_url": "u"}, "u", ""),
        ({"favicon": "u", "favicon_url": "v"}, "u", '{"favicon_url":"v"}'),
        ({"favicon": None, "favicon_url": "v"}, "v", ""),
        ({"favicon": "u", "favicon_url": None}, "u", ""),
    ],
)
def test_an_icon_may_come_under_either_name(given_icons: dict[str, object], icon: str, unknown: str) -> None:
    row = row_from_json({"sid": 1, **given_icons})
    assert (row.favicon, row.extra) == (icon, unknown)


@pytest.mark.parametrize(
    ("fields", "source_type"),
    [
        ({"url": "http://a"}, "web"),
        ({"title": "x"}, "manual"),
        ({"physical_path": "turn_1/files/a", "url": "http://a"}, "file"),
        ({"artifact_path": "fi:turn_1.files/a"}, "file"),
        ({"source_type": None, "url": "http://a"}, "web"),
        ({"source_type": "attachment"}, "attachment"),
    ],
)
def test_a_row_that_does_not_say_its_type_gets_the_likely_one(fields: dict[str, object], source_type: str) -> None:
    assert row_from_json({"sid": 1, **fields}).source_type == source_type


def test_a_null_is_as_good_as_nothing() -> None:
    assert row_from_json({"sid": 1, "title": None, "size_bytes": None}) == SourceRow(sid=1, source_type="manual")


def test_a_source_without_an_id_takes_no_notice_of_one() -> None:
    assert source_from_json({"sid": "S1", "url": "http://a", "x": 1}) == NewSource(url="http://a", extra='{"x":1}')
    assert row_to_json(NewSource(url="http://a")) == {"source_type": "web", "url": "http://a"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sid", 0),
        ("sid", 1_000_000),
        ("sid", "1"),
        ("sid", True),
        ("sid", 10**400),
        pytest.param("sid", -(10**5_000), id="sid-endless"),
        ("source_type", "skill"),
        ("title", 5),
        ("title", "\ud800"),
        ("content", "\udfff"),
        ("url", "u" * 65_537),
        ("size_bytes", -1),
        ("size_bytes", 2**63),
        ("size_bytes", 10**400),
        ("size_bytes", 1.5),
        ("provider_rank", float("nan")),
        ("provider_rank", 10**400),
        ("authority", float("inf")),
        ("base64", "?"),
        ("content", {"sha256": "ab"}),
        ("content", {"sha256": "ab", "size_bytes": 10**400}),
        ("content", {"sha256": "ab", "size_bytes": 2**63}),
        ("base64", {"sha256": "ab", "size_bytes": -1}),
        ("base64", {"sha256": "\ud800", "size_bytes": 1}),
        ("favicon_url", 5),
        ("unknown", "\ud800"),
        ("unknown", object()),
        ("unknown", "x" * 65_536),
        ("unknown", nested(33)),
        ("unknown", nested(100_000)),
    ],
)
def test_a_field_of_another_shape_is_refused_by_name(field: str, value: object) -> None:
    message = malformed({"sid": 1, field: value})
    assert len(message) <= 300
    assert field in message or field in ("unknown", "favicon_url")


def test_what_is_no_object_is_refused() -> None:
    assert malformed([1]) == "a source row is a JSON object, got list"
    assert "sid" in malformed({})


@pytest.mark.parametrize("extra", ["[]", "{", '{"sid":1}', '{"x":' + "[" * 30_000, '{"a":1}{}'])
def test_extra_is_the_text_of_an_object_of_unknown_fields(extra: str) -> None:
    with pytest.raises(SourceError, match="extra"):
        SourceRow(sid=1, extra=extra)


@pytest.mark.parametrize("sid", [0, -1, 1_000_000])
def test_an_id_out_of_range_cannot_be_made(sid: int) -> None:
    with pytest.raises(SourceError, match="sid"):
        SourceRow(sid=sid)
    with pytest.raises(SourceError, match="sid"):
        with_sid(NewSource(), sid)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400, pytest.param(-(10**5_000), id="endless")])
def test_a_number_that_has_no_64_bit_form_cannot_be_made(number: int) -> None:
    for field in ("size_bytes", "provider_rank", "weighted_rank", "authority"):
        values: dict[str, int] = {field: number}
        with pytest.raises(SourceError, match=field):
            msgspec.structs.replace(NewSource(), **values)
    with pytest.raises(SourceError, match="content"):
        NewSource(content=BlobRef(sha256="ab", size_bytes=number))


@pytest.mark.parametrize("number", [2**63 - 1, 0, -(2**63)])
def test_a_number_of_64_bits_has_a_binary_form(number: int) -> None:
    row = SourceRow(sid=1, size_bytes=abs(number) - (number < 0), provider_rank=number, authority=number)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(row), type=SourceRow)
    assert (again.size_bytes, again.provider_rank) == (row.size_bytes, float(number))


def test_a_source_keeps_its_fields_when_it_gets_an_id() -> None:
    row = with_sid(source_from_json(FULL), 3)
    assert row_to_json(row) == {**FULL, "sid": 3}
    assert with_sid(row, 7) == row_from_json(FULL)


@pytest.mark.parametrize(
    "mime",
    ["text/plain", "TEXT/HTML; charset=utf-8", " image/png ", "image/svg+xml", "application/pdf", "Application/PDF;x"],
)
def test_text_images_and_pdf_are_eligible(mime: str) -> None:
    assert is_eligible_mime(mime)


@pytest.mark.parametrize(
    "mime", ["", "text", "text/", "texts/plain", "application/json", "application/pdfx", "x; text/plain"]
)
def test_other_types_are_not_eligible(mime: str) -> None:
    assert not is_eligible_mime(mime)


def test_a_file_enters_the_pool_only_if_it_is_eligible_and_can_be_found() -> None:
    file = NewSource(
        source_type="file", mime="text/csv", physical_path="turn_1/files/a", artifact_path="fi:turn_1.files/a"
    )
    assert prepare_for_pool(file) == file
    for source, code in [
        (msgspec.structs.replace(file, mime="application/zip"), "source_not_eligible"),
        (msgspec.structs.replace(file, mime="", source_type="attachment"), "source_not_eligible"),
        (msgspec.structs.replace(file, physical_path=""), "source_malformed"),
        (msgspec.structs.replace(file, artifact_path=""), "source_malformed"),
    ]:
        with pytest.raises(SourceError) as caught:
            prepare_for_pool(source)
        assert caught.value.code == code


def test_a_web_page_of_any_type_enters_the_pool() -> None:
    page = NewSource(url="https://a/b.zip", mime="application/zip", domain="a")
    assert prepare_for_pool(page) == page


def test_the_domain_is_the_host_of_the_address_unless_it_is_given() -> None:
    assert prepare_for_pool(NewSource(url="https://U@Bücher.de:8080/x")).domain == "xn--bcher-kva.de"
    assert prepare_for_pool(NewSource(url="https://a/", domain="b")).domain == "b"
    assert prepare_for_pool(NewSource(url="a/b")).domain == ""


def test_a_long_snippet_becomes_the_body_where_there_is_none() -> None:
    long = "x" * (MAX_TEXT_CHARS + 1)
    row = prepare_for_pool(NewSource(text=long))
    assert (row.text, row.content) == ("x" * (MAX_TEXT_CHARS - 1) + "…", long)
    assert prepare_for_pool(NewSource(text=long, content="body")).content == "body"


def test_a_body_lends_its_beginning_to_an_empty_snippet() -> None:
    assert prepare_for_pool(NewSource(content="body")).text == "body"
    assert prepare_for_pool(NewSource(content=BlobRef(sha256="ab", size_bytes=1))).text == ""


def test_a_preview_is_dropped_when_its_base64_is_above_the_cap() -> None:
    most = MAX_BASE64_CHARS // 4 * 3
    assert prepare_for_pool(NewSource(base64=b"x" * most)).base64 == b"x" * most
    assert prepare_for_pool(NewSource(base64=b"x" * (most + 1))).base64 is None
    assert prepare_for_pool(NewSource(base64=b"")).base64 is None
    assert prepare_for_pool(NewSource(base64=BlobRef(sha256="ab", size_bytes=most + 1))).base64 is None
    assert row_from_json({"sid": 1, "base64": "A" * MAX_BASE64_CHARS}).base64 == b"\0" * most
    assert row_from_json({"sid": 1, "base64": "A" * (MAX_BASE64_CHARS + 4)}).base64 is None


def test_a_long_title_is_cut() -> None:
    assert prepare_for_pool(NewSource(title="x" * 600)).title == "x" * 499 + "…"


@given(rows())
def test_what_was_admitted_is_admitted_as_it_is(row: SourceRow) -> None:
    source = msgspec.structs.replace(row, source_type="web")
    assert prepare_for_pool(prepare_for_pool(source)) == prepare_for_pool(source)


def test_a_manual_source_says_something() -> None:
    assert make_manual_source("T", "said", "http://a") == NewSource(
        source_type="manual", title="T", text="said", url="http://a"
    )
    with pytest.raises(SourceError, match="title"):
        make_manual_source(" ", "")


def test_a_compact_row_keeps_what_a_list_shows() -> None:
    assert row_to_json(to_compact_row(row_from_json({**FULL, "provider": "x"}), text_chars=3)) == {
        "sid": 7,
        "source_type": "web",
        "title": "A page",
        "url": "https://example.com/a",
        "text": "sh…",
        "mime": "text/html",
        "artifact_path": "fi:turn_1.files/a.html",
        "physical_path": "turn_1/files/a.html",
        "domain": "example.com",
        "favicon": "https://example.com/i.png",
        "published_time_iso": "2026-01-01T00:00:00Z",
        "objective_relevance": 0.9,
    }


def test_a_compact_row_has_no_snippet_when_none_is_wanted() -> None:
    assert to_compact_row(SourceRow(sid=1, text="x"), text_chars=0).text == ""


def test_a_compact_row_is_bounded() -> None:
    long = "x" * 60_000
    row = to_compact_row(
        SourceRow(sid=1, title=long, url=long, favicon=long, text=long, content=long, mime=long, rn=long)
    )
    assert len(msgspec.json.encode(row)) < 1_000


@given(rows(), st.integers(0, 30))
def test_a_compact_row_compacts_to_itself(row: SourceRow, chars: int) -> None:
    once = to_compact_row(row, chars)
    assert to_compact_row(once, chars) == once
    assert len(once.text) <= chars
