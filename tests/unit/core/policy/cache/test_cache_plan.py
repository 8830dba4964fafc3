"""The cache plan: points where they are found again, with lifetimes, and one more where a round brought many blocks."""

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.cache import kept, stands, ts
from timeloom.core.blocks.caching import CacheForecast, CacheSettings
from timeloom.core.policy.cache.plan import CacheAsked, placed, planned
from timeloom.core.render.prompt import End
from timeloom.core.view.context.provider_caches import CachedView, ModelCache


def end(blocks: int) -> End:
    return End(blocks, blocks, blocks * 1_000, stands(blocks))


def asked(model: str = "m", lifetime: str = "auto", system: str = "s") -> CacheAsked:
    settings = CacheSettings(lifetime="1h") if lifetime == "1h" else CacheSettings()
    return CacheAsked(
        model=model, system=system, system_tokens=2_000, total_tokens=99_000, at=ts(10), settings=settings
    )


def cached(*blocks: int, model: str = "m") -> CachedView:
    return CachedView(models={model: ModelCache(kept=tuple(kept(one, 2_000 + one * 1_000) for one in blocks))})


def places(view: CachedView, *blocks: int, model: str = "m") -> list[int]:
    return [one.blocks for one in placed(view, asked(model), [end(one) for one in blocks], end).ends]


def plan_of(wanted: CacheAsked) -> CacheForecast:
    return planned(cached(), wanted, placed(cached(), wanted, [end(3)], end), end)


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
    assert [one.blocks for one in placed(cached(12), asked(), [end(40)], lambda _: None).ends] == [40]


@given(st.sets(st.integers(1, 200), min_size=1, max_size=3), st.sets(st.integers(0, 200), max_size=9))
def test_what_was_sent_last_is_always_found_and_points_are_three_at_most(ends: set[int], before: set[int]) -> None:
    tail = max(ends)
    view = cached(*sorted(one for one in before if one <= tail))
    chosen = placed(view, asked(), [end(one) for one in sorted(ends)], end)
    assert len(chosen.ends) <= 3
    assert max(one.blocks for one in chosen.ends) == tail
    plan = planned(view, asked(), chosen, end)
    longest = max((one for one in before if one <= tail), default=None)
    assert (plan.hit.blocks if plan.hit else None) == longest


def test_a_plan_has_the_system_text_first_and_records_what_it_was_made_from() -> None:
    plan = plan_of(asked(lifetime="1h"))
    assert [(one.seq, one.tokens, one.lifetime) for one in plan.points] == [(0, 2_000, "1h"), (3, 5_000, "1h")]
    assert (plan.at, plan.system, plan.settings.lifetime) == (ts(10), "s", "1h")
    assert (plan.read_tokens, plan.written_1h_tokens, plan.uncached_tokens) == (0, 5_000, 94_000)


def test_without_a_system_text_there_is_no_point_on_it() -> None:
    assert [one.seq for one in plan_of(asked(system="")).points] == [3]
