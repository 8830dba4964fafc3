"""The sources pool: stable ids, merged rows, and a fold that validates its input."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.payload import ref_of
from timeloom.core.sources import (
    MergeResult,
    NewSource,
    SourceError,
    SourceRow,
    SourcesPool,
    make_manual_source,
    merge_key,
    prepare_for_pool,
    with_sid,
)

PATHS = st.sampled_from(["", "turn_1/files/a", "turn_1/files/b"])
URLS = st.sampled_from(["", "http://a", "HTTP://A/", "http://a/?utm_id=1", "http://b", "https://a", "notes.txt", " "])
WORDS = st.sampled_from(["", "x", "y"])
TIMES = st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-01T03:00:00+02:00", "2026-01-02", "soon"])
UNKNOWN = st.sampled_from(["", '{"p":1}', '{"p":2,"q":1}'])
CONTENTS = st.one_of(WORDS, WORDS.map(lambda text: ref_of(text.encode())))


@st.composite
def sources(draw: st.DrawFn) -> NewSource:
    path = draw(PATHS)
    return NewSource(
        source_type=draw(st.sampled_from(("file", "attachment") if path else ("web", "manual"))),
        title=draw(WORDS),
        url=draw(URLS),
        text=draw(WORDS),
        content=draw(CONTENTS),
        base64=draw(st.sampled_from([None, b"x", b"y"])),
        hosted_uri=draw(WORDS),
        size_bytes=draw(st.sampled_from([None, 1, 2])),
        mime="text/plain",
        physical_path=path,
        artifact_path=f"fi:{path}" if path else draw(WORDS),
        modified_time_iso=draw(TIMES),
        fetched_time_iso=draw(TIMES),
        query_relevance=draw(st.sampled_from([None, 0.0, 0.5])),
        extra=draw(UNKNOWN),
    )


@st.composite
def recorded(draw: st.DrawFn) -> SourceRow:
    """Rows as a foreign log may have them: ids used twice, files without a path."""
    values = msgspec.structs.asdict(draw(sources()))
    values.update(sid=draw(st.integers(1, 5)), physical_path=draw(PATHS))
    return SourceRow(**values)


BATCHES = st.lists(st.lists(sources(), max_size=4), max_size=5)


def merge(pool: SourcesPool, *new: NewSource) -> MergeResult:
    merged = pool.merge(new)
    pool.add_rows(merged.added)
    return merged


def page(url: str = "http://a/", **values: str | int) -> NewSource:
    return msgspec.convert({"url": url, **values}, NewSource)


def file(physical_path: str, **values: str) -> NewSource:
    known = {"source_type": "file", "mime": "text/plain", "artifact_path": f"fi:{physical_path}"}
    return msgspec.convert({**known, "physical_path": physical_path, **values}, NewSource)


def test_new_sources_get_the_next_ids_in_order() -> None:
    pool = SourcesPool()
    assert merge(pool, page("http://a/"), page("http://b/")).sids == (1, 2)
    assert merge(pool, page("http://c/")).sids == (3,)
    assert [row.sid for row in pool.list_rows()] == [1, 2, 3]


def test_new_sources_begin_at_an_id_that_the_caller_leaves_free() -> None:
    pool = SourcesPool()
    pool.add_rows(pool.merge([NewSource(url="https://a.example")]).added)
    sources = [NewSource(url="https://a.example"), NewSource(url="https://b.example")]
    assert pool.merge(sources, 7).sids == (1, 7)
    assert pool.merge(sources, 1).sids == (1, 2)


def test_a_source_is_found_by_what_it_merges_with() -> None:
    pool = SourcesPool()
    pool.add_rows(pool.merge([NewSource(url="https://a.example/")]).added)
    assert pool.find(NewSource(url="https://a.example")) == pool.get(1)
    assert pool.find(NewSource(url="https://b.example")) is None


def test_a_merge_changes_nothing_until_its_rows_are_added() -> None:
    pool = SourcesPool()
    assert pool.merge([page()]) == pool.merge([page()])
    assert pool == SourcesPool()


def test_spellings_of_one_address_share_an_id_and_the_address_stays_as_it_came() -> None:
    pool = SourcesPool()
    assert merge(pool, page("HTTP://A:80"), page("http://a/?utm_source=x"), page("http://a:81/")).sids == (1, 1, 2)
    assert [row.url for row in pool.list_rows()] == ["HTTP://A:80", "http://a:81/"]


def test_files_merge_by_path_and_not_by_address() -> None:
    pool = SourcesPool()
    first, second = file("turn_1/files/a", url="http://a/"), file("turn_1/files/b", url="http://a/")
    assert merge(pool, first, second, page(), first).sids == (1, 2, 3, 1)


def test_sources_with_neither_merge_when_they_say_the_same() -> None:
    pool = SourcesPool()
    said = make_manual_source("T", "said")
    body = NewSource(source_type="manual", title="T", text="said", content="more")
    stored = msgspec.structs.replace(body, content=ref_of(b"more"))
    assert merge(pool, said, said, make_manual_source("T", "unsaid"), body, stored).sids == (1, 1, 2, 3, 3)


def test_a_source_that_is_known_is_not_recorded_again() -> None:
    pool = SourcesPool()
    merge(pool, page(title="T"))
    assert merge(pool, page(title="Other", url="http://A")) == MergeResult(added=(), sids=(1,))
    assert pool.rows[1].title == "T"


def test_a_richer_source_fills_what_was_empty_and_is_recorded_as_a_new_version() -> None:
    pool = SourcesPool()
    merge(pool, page(title="T", extra='{"p":1}'))
    merged = merge(pool, page(title="Other", content="body", favicon="i", extra='{"p":2,"q":3}'))
    (row,) = merged.added
    assert (row.sid, row.title, row.content, row.favicon, row.extra) == (1, "T", "body", "i", '{"p":1,"q":3}')
    assert pool.get(1) == row


def test_a_later_fetch_replaces_the_body_and_nothing_else() -> None:
    pool = SourcesPool()
    merge(pool, page(title="T", content="old", fetched_time_iso="2026-01-01T03:00:00+02:00"))
    merge(pool, page(title="U", content="new", fetched_time_iso="2026-01-01T02:00:00"))
    assert (pool.rows[1].title, pool.rows[1].content, pool.rows[1].text) == ("T", "new", "new")


def test_a_renewed_body_leaves_nothing_of_the_old_one_behind() -> None:
    pool = SourcesPool()
    hosted = {"rn": "ef:1", "hosted_uri": "s3://old", "key": "k", "base64": "QUJD"}
    old = {"content": "old body", "mime": "text/html", "modified_time_iso": "2023-12-31", **hosted}
    merge(pool, page(title="T", favicon="i", size_bytes=8, fetched_time_iso="2024-01-01T00:00:00Z", **old))
    new = page(content="new body which is longer", fetched_time_iso="2025-01-01T00:00:00Z")
    (row,) = merge(pool, new).added
    assert row == with_sid(msgspec.structs.replace(prepare_for_pool(new), title="T", favicon="i"), 1)


def test_a_renewed_preview_or_place_is_a_renewed_body_too() -> None:
    pool = SourcesPool()
    merge(pool, page(base64="QUJD", size_bytes=3, hosted_uri="s3://old", fetched_time_iso="2024-01-01"))
    (row,) = merge(pool, page(base64="QUJE", fetched_time_iso="2025-01-01")).added
    assert (row.base64, row.size_bytes, row.hosted_uri) == (b"ABD", None, "")
    merge(pool, page("http://b/", hosted_uri="s3://old", size_bytes=9_999, fetched_time_iso="2024-01-01"))
    (row,) = merge(pool, page("http://b/", hosted_uri="s3://new", fetched_time_iso="2025-01-01")).added
    assert (row.hosted_uri, row.size_bytes) == ("s3://new", None)


@pytest.mark.parametrize(
    "other",
    [
        {"content": "old", "fetched_time_iso": "2024-01-01"},
        {"content": "old"},
        {"text": "snippet", "fetched_time_iso": "2026-01-01"},
        {"content": "old", "fetched_time_iso": "2025-01-01T00:00:00Z"},
    ],
    ids=["older", "without a time", "newer without a body", "of the same time"],
)
def test_the_gaps_of_a_body_are_not_filled_from_another_one(other: dict[str, str]) -> None:
    pool = SourcesPool()
    merge(pool, page(content="new", fetched_time_iso="2025-01-01"))
    merge(pool, page(title="T", size_bytes=3, mime="text/html", hosted_uri="s3://old", **other))
    row = pool.rows[1]
    assert (row.title, row.content, row.size_bytes, row.mime, row.hosted_uri) == ("T", "new", None, "", "")


def test_the_gaps_of_a_body_are_filled_from_the_same_one() -> None:
    pool = SourcesPool()
    merge(pool, page(content="body", hosted_uri="s3://a", fetched_time_iso="2025-01-01"))
    stored = NewSource(url="http://a/", content=ref_of(b"body"), size_bytes=4, fetched_time_iso="2025-01-01T00:00:00Z")
    merge(pool, stored)
    assert (pool.rows[1].content, pool.rows[1].size_bytes, pool.rows[1].hosted_uri) == ("body", 4, "s3://a")


def test_a_first_body_joins_what_was_known_without_one() -> None:
    pool = SourcesPool()
    merge(pool, page(text="snippet", mime="text/html", fetched_time_iso="2024-01-01"))
    (row,) = merge(pool, page(hosted_uri="s3://new", modified_time_iso="2025-01-01")).added
    assert (row.text, row.mime, row.hosted_uri) == ("snippet", "text/html", "s3://new")
    assert (row.fetched_time_iso, row.modified_time_iso) == ("", "2025-01-01")


@pytest.mark.parametrize(
    "later",
    [
        page(content="new"),
        page(content="new", fetched_time_iso="2026-01-01T00:00:00Z"),
        page(content="new", fetched_time_iso="soon"),
        page(text="snippet", fetched_time_iso="2026-02-01T00:00:00Z"),
        page(base64="QUJD", text="snippet", fetched_time_iso="2026-02-01T00:00:00Z"),
        page(hosted_uri="s3://new", fetched_time_iso="2026-02-01T00:00:00Z"),
    ],
    ids=["no time", "not later", "no readable time", "no body", "a preview only", "a place only"],
)
def test_a_body_is_not_replaced_without_reason(later: NewSource) -> None:
    pool = SourcesPool()
    merge(pool, page(content="old", base64="QQ==", hosted_uri="s3://old", fetched_time_iso="2026-01-01T00:00:00Z"))
    assert merge(pool, later).added == ()


def test_one_merge_records_each_row_once_in_its_last_version() -> None:
    merged = SourcesPool().merge([page(), page("http://b/"), page(title="T")])
    assert [(row.sid, row.title) for row in merged.added] == [(1, "T"), (2, "")]


def test_unknown_fields_that_would_grow_too_large_together_stay_apart() -> None:
    pool = SourcesPool()
    merge(pool, page(extra=f'{{"p":"{"x" * 40_000}"}}'))
    assert merge(pool, page(extra=f'{{"q":"{"x" * 40_000}"}}')).added == ()


def test_filling_never_makes_a_row_another_source() -> None:
    pool = SourcesPool()
    pool.add_rows([SourceRow(sid=1, source_type="file", url="http://a/")])
    page_with_path = NewSource(url="http://a/", physical_path="turn_1/files/a", title="T")
    assert merge(pool, page_with_path) == MergeResult(added=(), sids=(1,))


def test_what_may_not_enter_stops_the_whole_merge() -> None:
    with pytest.raises(SourceError) as caught:
        SourcesPool().merge([page(), file("turn_1/files/a.zip", mime="application/zip")])
    assert caught.value.code == "source_not_eligible"


def test_a_full_pool_refuses_another_source() -> None:
    pool = SourcesPool()
    pool.add_rows([SourceRow(sid=999_999, url="http://a/")])
    with pytest.raises(SourceError, match="sid"):
        pool.merge([page("http://b/")])


def test_an_id_keeps_its_first_meaning_and_a_key_its_first_id() -> None:
    pool = SourcesPool()
    first, again = SourceRow(sid=1, url="http://a/"), SourceRow(sid=4, url="http://A")
    pool.add_rows([first, SourceRow(sid=1, url="http://b/"), again])
    assert pool.rows == {1: first, 4: again}
    assert pool.merge([page(), page("http://b/")]).sids == (1, 5)


def test_rows_are_selected_in_the_order_asked_for_and_once() -> None:
    pool = SourcesPool()
    merge(pool, *(page(f"http://{name}/") for name in "abcdef"))
    assert [row.sid for row in pool.select([5, (1, 3), (2, 5), 9])] == [5, 1, 2, 3, 4]
    assert [row.sid for row in pool.select([(4, 10**12)])] == [4, 5, 6]
    assert pool.select([(3, 1), (-5, 0)]) == ()
    assert pool.get(7) is None


@given(BATCHES)
def test_ids_stay_and_the_same_key_always_gives_the_same_id(batches: list[list[NewSource]]) -> None:
    pool, sid_of = SourcesPool(), dict[str, int]()
    for batch in batches:
        merged = merge(pool, *batch)
        assert len(merged.sids) == len(batch)
        for source, sid in zip(batch, merged.sids, strict=True):
            assert sid_of.setdefault(merge_key(pool.rows[sid]), sid) == sid
            assert merge_key(prepare_for_pool(source)) == merge_key(pool.rows[sid])
        assert sorted(pool.rows) == list(range(1, len(pool.rows) + 1))


@given(BATCHES)
def test_the_recorded_rows_alone_give_the_same_pool(batches: list[list[NewSource]]) -> None:
    pool = SourcesPool()
    added = [row for batch in batches for row in merge(pool, *batch).added]
    again = SourcesPool()
    again.add_rows(added)
    assert again == pool
    again.add_rows(pool.list_rows())
    assert again == pool


@given(BATCHES)
def test_ids_do_not_depend_on_how_sources_are_cut_into_merges(batches: list[list[NewSource]]) -> None:
    apart, at_once = SourcesPool(), SourcesPool()
    sids = [sid for batch in batches for sid in merge(apart, *batch).sids]
    assert merge(at_once, *(source for batch in batches for source in batch)).sids == tuple(sids)
    assert at_once == apart


@given(BATCHES)
def test_a_merge_that_is_repeated_records_nothing_new(batches: list[list[NewSource]]) -> None:
    pool = SourcesPool()
    for batch in batches:
        first = merge(pool, *batch)
        assert pool.merge(batch) == MergeResult(added=(), sids=first.sids)


@given(st.lists(recorded(), max_size=12), st.lists(sources(), max_size=4))
def test_a_pool_takes_any_log_and_goes_on(rows: list[SourceRow], new: list[NewSource]) -> None:
    pool = SourcesPool()
    for row in rows:
        before = pool.get(row.sid)
        pool.add_rows([row])
        after = pool.rows[row.sid]
        assert after == row or after is before
    sids = merge(pool, *new).sids
    assert all(
        merge_key(pool.rows[sid]) == merge_key(prepare_for_pool(source)) for sid, source in zip(sids, new, strict=True)
    )


@given(BATCHES)
def test_a_pool_survives_a_snapshot(batches: list[list[NewSource]]) -> None:
    pool = SourcesPool()
    for batch in batches:
        merge(pool, *batch)
    assert msgspec.json.decode(msgspec.json.encode(pool), type=SourcesPool) == pool
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(pool), type=SourcesPool) == pool
