"""Lifetimes of cache points: the cheapest choice for the pauses that the conversation has shown."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.cache import RULES, make_cache_point, make_kept_prefix, prefix_hash, timestamp_after
from timeloom.core.blocks.caching import CacheRates, Lifetime, LifetimeChoice
from timeloom.core.policy.cache.costs import (
    CacheRules,
    RequestShape,
    find_cache_state,
    forecast_request,
    with_lifetimes,
)
from timeloom.core.policy.cache.lifetimes import (
    MAX_REQUESTS,
    SHORT_REQUESTS,
    TAIL_REQUESTS,
    ExpectedPauses,
    _rewrite_cost,  # pyright: ignore[reportPrivateUsage]
    choose_lifetimes,
    expect_pauses,
    pause_probability,
)
from timeloom.core.view.context.provider_caches import CachedPrefix, PauseCounts, ProviderCachesView


def chosen(
    share: float,
    *before: CachedPrefix,
    tail: float | None = None,
    choice: LifetimeChoice = "auto",
    rules: CacheRules = RULES,
    rates: CacheRates | None = None,
) -> list[str]:
    """The lifetimes of a request with 10,000 tokens of system text, 90,000 that were there and 1,000 that are new."""
    shape = RequestShape(
        system="s",
        points=(make_cache_point(0, 10_000), make_cache_point(8, 100_000), make_cache_point(9, 101_000)),
        total_tokens=102_000,
    )
    made = choose_lifetimes(
        shape,
        find_cache_state(before, "s", prefix_hash, rules, timestamp_after(10)),
        rates or CacheRates(),
        ExpectedPauses(share, share if tail is None else tail),
        choice,
    )
    return [one.lifetime for one in made.points]


WARM = (make_kept_prefix(0, 10_000), make_kept_prefix(8, 100_000))


def test_an_hour_over_five_minutes_is_not_counted_on() -> None:
    assert chosen(0.6, *WARM) == ["5m", "5m", "5m"]
    assert chosen(0.99, *WARM) == ["5m", "5m", "5m"]


def test_everything_at_once_is_worth_an_hour_only_where_a_pause_is_likely() -> None:
    assert chosen(0.6) == ["5m", "5m", "5m"]
    assert chosen(0.7) == ["1h", "1h", "1h"]


def test_the_system_text_gets_an_hour_where_pauses_come_too_seldom_for_the_rest() -> None:
    assert chosen(1.4, tail=0.3) == ["1h", "5m", "5m"]
    assert chosen(1.4, tail=0.9) == ["1h", "1h", "1h"]


def test_an_hour_is_chosen_for_the_pauses_of_all_requests_to_come_not_only_of_the_next() -> None:
    # One request in twenty comes after ten minutes: each pause alone is unlikely, but there will be more of them.
    pauses = PauseCounts(count=60, over_5m=3)
    expected = expect_pauses(ProviderCachesView(within=pauses, calls=61, turns=1), last=False)
    assert pause_probability(ProviderCachesView(within=pauses, calls=61, turns=1), last=False) < 0.04
    assert chosen(expected.lasting, tail=expected.tail) == ["1h", "5m", "5m"]


def test_long_conversations_are_expected_to_double_and_short_ones_to_end_sooner() -> None:
    def expected(calls: int, *, last: bool = False) -> tuple[float, float, float]:
        view = ProviderCachesView(calls=calls)
        found = expect_pauses(view, last=last)
        return pause_probability(view, last=False), found.lasting, found.tail

    each, lasting, tail = expected(0)
    assert lasting == tail == each
    each, lasting, tail = expected(SHORT_REQUESTS)
    assert lasting == tail == pytest.approx(each * SHORT_REQUESTS / 2)
    each, lasting, tail = expected(85)
    assert (lasting, tail) == (pytest.approx(72.25 * each), pytest.approx(TAIL_REQUESTS * each))
    each, lasting, tail = expected(10_000)
    assert lasting == pytest.approx(MAX_REQUESTS * each)
    _, lasting, tail = expected(2, last=True)
    assert lasting == tail == pytest.approx(pause_probability(ProviderCachesView(calls=2), last=True))


def test_two_pauses_in_seven_requests_do_not_buy_an_hour() -> None:
    pauses = PauseCounts(count=2, over_5m=2)
    view = ProviderCachesView(within=PauseCounts(count=3), between=pauses, calls=6, turns=3)
    expected = expect_pauses(view, last=False)
    assert chosen(expected.lasting, tail=expected.tail) == ["5m", "5m", "5m"]


def test_what_lasts_an_hour_already_is_not_paid_for_again() -> None:
    assert chosen(0.01, make_kept_prefix(0, 10_000), make_kept_prefix(8, 100_000, "1h")) == ["5m", "5m", "5m"]


def test_prices_decide() -> None:
    assert chosen(0.1, rates=CacheRates(write_1h=1.3)) == ["1h", "1h", "1h"]
    assert chosen(0.1) == ["5m", "5m", "5m"]


LIFETIMES = st.sampled_from(["5m", "1h"])


@given(
    st.dictionaries(st.sampled_from([0, 4, 8, 9]), st.tuples(st.integers(0, 120_000), LIFETIMES)),
    st.floats(0, 4),
    st.sampled_from([1.0, 1.25, 1.3, 2.0]),
    st.sampled_from([1.25, 2.0]),
)
def test_the_choice_is_the_first_of_the_cheapest(
    before: dict[int, tuple[int, Lifetime]], share: float, write_5m: float, write_1h: float
) -> None:
    rates = CacheRates(write_5m=write_5m, write_1h=write_1h)
    shape = RequestShape(
        system="s",
        points=(make_cache_point(0, 10_000), make_cache_point(8, 100_000), make_cache_point(9, 101_000)),
        total_tokens=102_000,
    )
    cached = find_cache_state(
        [make_kept_prefix(blocks, *what) for blocks, what in before.items()],
        "s",
        prefix_hash,
        RULES,
        timestamp_after(10),
    )
    all_ways = [
        forecast_request(msgspec.structs.replace(shape, points=with_lifetimes(shape.points, long)), cached)
        for long in range(4)
    ]
    pauses = ExpectedPauses(share, share / 2)
    cheapest = min(all_ways, key=lambda one: one.cost(rates) + _rewrite_cost(one, shape, rates, cached.at, pauses))
    assert choose_lifetimes(shape, cached, rates, pauses) == cheapest


def test_a_setting_decides_before_prices_do() -> None:
    assert chosen(0.0, choice="1h") == ["1h", "1h", "1h"]
    assert chosen(0.9, choice="5m") == ["5m", "5m", "5m"]


def test_an_automatic_cache_has_no_lifetimes_to_choose() -> None:
    assert chosen(0.9, rules=CacheRules(kind="automatic")) == ["5m", "5m", "5m"]


def test_a_request_that_is_too_small_costs_the_same_either_way() -> None:
    assert chosen(0.9, rules=CacheRules(min_tokens=200_000)) == ["5m", "5m", "5m"]


def test_before_anything_was_seen_a_pause_is_rare_within_a_turn_and_usual_after_it() -> None:
    assert pause_probability(ProviderCachesView(), last=True) == pytest.approx(0.3)
    assert pause_probability(ProviderCachesView(), last=False) == pytest.approx(0.125 * 0.3 + 0.875 * 0.004)


def test_the_pauses_of_a_conversation_count() -> None:
    slow = ProviderCachesView(between=PauseCounts(count=8, over_5m=8, over_1h=1), calls=40, turns=9)
    assert pause_probability(slow, last=True) == pytest.approx((2 * 0.3 + 7) / 10)
    assert pause_probability(slow, last=False) == pytest.approx(9.25 / 42 * 0.76 + 32.75 / 42 * 0.004)
