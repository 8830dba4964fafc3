"""The view of provider caches: the prefixes that each call leaves, and corrections from each answer."""

import pytest
from msgspec.structs import replace

from tests.harness.cache import make_cache_point, timestamp_after
from timeloom.core.blocks import AnyBlock, ModelAnswered, ModelCalled, Usage
from timeloom.core.blocks.caching import CacheForecast, CachePoint
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Draft, to_entry
from timeloom.core.view.context.provider_caches import (
    MAX_ANCHORS,
    MAX_PREFIXES,
    RATIO_TOKENS,
    ContentRatio,
    PauseCounts,
    ProviderCachesView,
)


def after(*said: tuple[float, str, AnyBlock]) -> ProviderCachesView:
    view = ProviderCachesView()
    for seq, (at, turn, block) in enumerate(said, 1):
        view.add(to_entry(Draft(TurnId(turn), timestamp_after(at), block), seq))
    return view


def called(at: float, *points: CachePoint, hit: CachePoint | None = None, model: str = "m") -> ModelCalled:
    cache = CacheForecast(at=timestamp_after(at), system="s", points=points, hit=hit) if points else None
    return ModelCalled(round=1, model=model, request_sha256="x", cache=cache)


def answered(usage: Usage, error: str = "") -> ModelAnswered:
    return ModelAnswered(round=1, model="m", stop_reason="end", error=error, usage=usage)


def test_each_point_leaves_a_prefix_and_what_was_read_is_renewed() -> None:
    view = after(
        (0, "turn_1", called(0, make_cache_point(0, 20), make_cache_point(1, 50))),
        (
            9,
            "turn_1",
            called(
                9,
                make_cache_point(0, 20),
                replace(make_cache_point(2, 5), small=True),
                make_cache_point(3, 90, "1h"),
                hit=make_cache_point(1, 50),
            ),
        ),
    )
    kept = {one.blocks: (one.used_at, one.lifetime) for one in view.for_model("m").kept}
    assert kept == {0: (timestamp_after(9), "5m"), 1: (timestamp_after(9), "5m"), 3: (timestamp_after(9), "5m")}
    assert view.for_model("other").kept == ()


def test_an_hour_is_counted_on_only_over_an_hour() -> None:
    first = (0, "turn_1", called(0, make_cache_point(1, 50, "1h")))
    view = after(first, (9, "turn_1", called(9, make_cache_point(3, 90, "1h"), hit=make_cache_point(1, 50, "1h"))))
    assert {one.blocks: one.lifetime for one in view.for_model("m").kept} == {1: "1h", 3: "1h"}


def test_what_is_over_is_forgotten_and_written_anew() -> None:
    view = after(
        (0, "turn_1", called(0, make_cache_point(0, 20, "1h"), make_cache_point(1, 50))),
        (400, "turn_1", called(400, make_cache_point(1, 50, "1h"))),
    )
    assert [(one.blocks, one.lifetime) for one in view.for_model("m").kept] == [(0, "1h"), (1, "1h")]


def test_a_call_that_was_turned_away_leaves_nothing() -> None:
    before = (0, "turn_1", called(0, make_cache_point(1, 50)))
    refused = (1, "turn_1", answered(Usage(), "overloaded"))
    cut = (1, "turn_1", answered(Usage(input_tokens=3), "cut"))
    assert after(before, refused).for_model("m").kept == ()
    assert len(after(before, cut).for_model("m").kept) == 1
    assert after(before, refused, refused).for_model("m").asked is None


def test_what_was_read_and_written_is_the_size_of_the_last_prefix() -> None:
    asked = called(0, make_cache_point(1, 1_000), replace(make_cache_point(2, 1_100), small=True))
    told = after((0, "turn_1", asked), (1, "turn_1", answered(Usage(cache_read_tokens=200, cache_write_tokens=1_000))))
    (anchor,) = told.for_model("m").anchors
    assert (anchor.blocks, anchor.estimated, anchor.reported) == (1, 1_000, 1_200)


def expecting(read: int, *points: CachePoint) -> ModelCalled:
    """A call that is expected to read that many tokens, up to its first point."""
    cache = CacheForecast(at=timestamp_after(2), system="s", points=points, hit=points[0], read_tokens=read)
    return ModelCalled(round=1, model="m", request_sha256="x", cache=cache)


def sizes(view: ProviderCachesView) -> dict[int, int]:
    return {one.blocks: one.reported for one in view.for_model("m").anchors}


def test_what_was_read_is_the_size_of_the_expected_prefix() -> None:
    first = called(0, make_cache_point(0, 500), make_cache_point(1, 1_000))
    second = expecting(600, make_cache_point(0, 500), make_cache_point(2, 1_200))
    told = after(
        (0, "turn_1", first),
        (1, "turn_1", answered(Usage(cache_write_tokens=1_100))),
        (2, "turn_1", second),
        (3, "turn_1", answered(Usage(cache_read_tokens=580, cache_write_tokens=800))),
    )
    assert sizes(told) == {0: 580, 1: 1_100, 2: 1_380}
    assert told.for_model("m").content == ContentRatio(estimated=700, reported=800)


@pytest.mark.parametrize("read", [30, 900])
def test_another_prefix_than_the_expected_one_teaches_no_size_of_it(read: int) -> None:
    asked = replace(expecting(600, make_cache_point(0, 500), make_cache_point(2, 1_200)), estimated_tokens=1_300)
    usage = Usage(cache_read_tokens=read, cache_write_tokens=800, input_tokens=120)
    told = after((0, "turn_1", asked), (1, "turn_1", answered(usage)))
    assert sizes(told) == {2: read + 800}
    assert told.for_model("m").content == ContentRatio()
    assert told.for_model("m").tail == ContentRatio(estimated=100, reported=120)


def test_prefixes_at_cache_points_outlive_newer_ones() -> None:
    def request(n: int) -> ModelCalled:
        return called(n, make_cache_point(1, 100), make_cache_point(n + 2, 100 + n))

    first = called(0, make_cache_point(1, 100))
    wrote = answered(Usage(cache_write_tokens=110))
    steps: list[tuple[float, str, AnyBlock]] = [(0, "turn_1", first), (0, "turn_1", wrote)]
    for n in range(60):
        steps += [(n, "turn_1", request(n)), (n, "turn_1", answered(Usage(cache_write_tokens=120 + n)))]
    known = sizes(after(*steps))
    assert len(known) == MAX_ANCHORS
    assert {1, 61} <= set(known)


def test_older_content_counts_less() -> None:
    assert ContentRatio(RATIO_TOKENS, 100).add(10, 5) == ContentRatio(RATIO_TOKENS + 10, 105)
    assert ContentRatio(RATIO_TOKENS + 2, 100).add(10, 5) == ContentRatio(RATIO_TOKENS // 2 + 11, 55)


def test_a_report_without_a_write_or_of_nonsense_teaches_no_size() -> None:
    whole, small = make_cache_point(1, 1_000), replace(make_cache_point(1, 1_000), small=True)
    reports = [
        (whole, Usage(cache_read_tokens=900)),
        (whole, Usage(cache_write_tokens=90_000)),
        (whole, Usage(input_tokens=5)),
        (small, Usage(cache_write_tokens=900)),
    ]
    for asked, usage in reports:
        assert after((0, "turn_1", called(0, asked)), (1, "turn_1", answered(usage))).for_model("m").anchors == ()


def test_pauses_within_a_turn_and_between_turns_are_counted_apart() -> None:
    view = after(
        (0, "turn_1", called(0)),
        (10, "turn_1", called(10)),
        (400, "turn_2", called(400)),
        (800, "turn_2", called(800)),
        (9_000, "turn_3", called(9_000)),
        (9_001, "turn_3", answered(Usage())),
    )
    assert view.within == PauseCounts(count=2, over_5m=1)
    assert view.between == PauseCounts(count=2, over_5m=2, over_1h=1)
    assert (view.calls, view.turns) == (5, 3)


def test_no_more_is_remembered_than_can_be_found_again() -> None:
    view = after(*((n, "turn_1", called(n, make_cache_point(0, 20), make_cache_point(n + 1, 50))) for n in range(60)))
    kept = view.for_model("m").kept
    assert len(kept) == MAX_PREFIXES
    assert {one.blocks for one in kept} >= {0, 60}


def test_a_time_that_is_none_is_that_of_the_entry() -> None:
    cache = CacheForecast(at="soon", system="s", points=(make_cache_point(1, 50),))
    view = after((7, "turn_1", ModelCalled(round=1, model="m", request_sha256="x", cache=cache)))
    assert [one.used_at for one in view.for_model("m").kept] == [timestamp_after(7)]


def test_calls_for_other_purposes_leave_nothing() -> None:
    title = replace(called(0, make_cache_point(1, 50)), purpose="title")
    assert after((0, "turn_1", title)).models == {}
