"""The cache plan: points where they are found again, with lifetimes, and one more where a round brought many blocks."""

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.cache import make_kept_prefix, prefix_hash, timestamp_after
from timeloom.core.blocks.caching import CacheForecast, CacheSettings
from timeloom.core.policy.cache.plan import CachePlanRequest, place_points, plan_cache
from timeloom.core.render.prompt import PrefixEnd
from timeloom.core.view.context.provider_caches import ModelCache, ProviderCachesView


def end(blocks: int) -> PrefixEnd:
    return PrefixEnd(blocks, blocks, blocks * 1_000, prefix_hash(blocks))


def asked(model: str = "m", lifetime: str = "auto", system: str = "s") -> CachePlanRequest:
    settings = CacheSettings(lifetime="1h") if lifetime == "1h" else CacheSettings()
    return CachePlanRequest(
        model=model, system=system, system_tokens=2_000, total_tokens=99_000, at=timestamp_after(10), settings=settings
    )


def cached(*blocks: int, model: str = "m") -> ProviderCachesView:
    return ProviderCachesView(
        models={model: ModelCache(kept=tuple(make_kept_prefix(one, 2_000 + one * 1_000) for one in blocks))}
    )


def places(view: ProviderCachesView, *blocks: int, model: str = "m") -> list[int]:
    return [one.blocks for one in place_points(view, asked(model), [end(one) for one in blocks], end).ends]


def plan_of(wanted: CachePlanRequest) -> CacheForecast:
    return plan_cache(cached(), wanted, place_points(cached(), wanted, [end(3)], end), end)


def test_points_that_reach_back_to_what_is_kept_stay_as_they_are() -> None:
    assert places(cached(), 5, 10, 40) == [5, 10, 40]
    assert places(cached(0, 21), 5, 10, 40) == [5, 10, 40]


def test_after_many_blocks_a_point_more_stands_where_the_last_request_ended() -> None:
    assert places(cached(0, 12), 40) == [12, 40]
    assert places(cached(0, 12), 5, 40) == [5, 12, 40]


def test_where_there_would_be_too_many_the_first_gives_way() -> None:
    assert places(cached(0, 20), 5, 10, 40) == [10, 20, 40]


def test_an_automatic_cache_needs_no_point_more() -> None:
    assert places(cached(0, 12, model="openai:m"), 40, model="openai:m") == [40]


def test_a_kept_prefix_that_the_prompt_no_longer_has_is_not_marked() -> None:
    assert [one.blocks for one in place_points(cached(12), asked(), [end(40)], lambda _: None).ends] == [40]


@given(st.sets(st.integers(1, 200), min_size=1, max_size=3), st.sets(st.integers(0, 200), max_size=9))
def test_what_was_sent_last_is_always_found_and_points_are_three_at_most(ends: set[int], before: set[int]) -> None:
    tail = max(ends)
    view = cached(*sorted(one for one in before if one <= tail))
    chosen = place_points(view, asked(), [end(one) for one in sorted(ends)], end)
    assert len(chosen.ends) <= 3
    assert max(one.blocks for one in chosen.ends) == tail
    plan = plan_cache(view, asked(), chosen, end)
    longest = max((one for one in before if one <= tail), default=None)
    assert (plan.hit.blocks if plan.hit else None) == longest


def test_a_plan_has_the_system_text_first_and_records_what_it_was_made_from() -> None:
    plan = plan_of(asked(lifetime="1h"))
    assert [(one.seq, one.tokens, one.lifetime) for one in plan.points] == [(0, 2_000, "1h"), (3, 5_000, "1h")]
    assert (plan.at, plan.system, plan.settings.lifetime) == (timestamp_after(10), "s", "1h")
    assert (plan.read_tokens, plan.written_1h_tokens, plan.uncached_tokens) == (0, 5_000, 94_000)


def test_without_a_system_text_there_is_no_point_on_it() -> None:
    assert [one.seq for one in plan_of(asked(system="")).points] == [3]
