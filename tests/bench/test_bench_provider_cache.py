"""The simulated prompt cache of the benchmarks keeps the rules of the provider's public description."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.context.provider_cache import (
    CAREFUL,
    FIVE_MINUTES_S,
    HOUR_S,
    OPUS,
    Bill,
    CachePricing,
    ContentPiece,
    ProviderCache,
    RequestRefusedError,
)

SMALL = CachePricing(min_tokens=10)
CAREFUL_SMALL = CachePricing(min_tokens=10, hour_keeps_all=False)


def prompt(names: str, points: dict[int, int] | None = None, tokens: int = 100) -> list[ContentPiece]:
    """A block for each letter, with cache points of these lifetimes at these places."""
    marks = points or {}
    return [ContentPiece(name.encode(), tokens, marks.get(n, 0)) for n, name in enumerate(names)]


def last(names: str, lifetime_s: int = FIVE_MINUTES_S) -> list[ContentPiece]:
    """A block for each letter, the last with a cache point."""
    return prompt(names, {len(names) - 1: lifetime_s})


def test_without_a_point_everything_is_plain() -> None:
    assert ProviderCache(SMALL).bill_request(prompt("abc"), 0) == Bill(plain=300)


def test_what_stands_up_to_the_point_is_written_once_and_then_read() -> None:
    cache = ProviderCache(SMALL)
    assert cache.bill_request(prompt("abt", {1: FIVE_MINUTES_S}), 0) == Bill(written=200, plain=100)
    assert cache.bill_request(prompt("abcu", {2: FIVE_MINUTES_S}), 10) == Bill(read=200, written=100, plain=100)


def test_an_entry_lives_five_minutes_from_its_last_use() -> None:
    cache = ProviderCache(SMALL)
    cache.bill_request(last("ab"), 0)
    assert cache.bill_request(last("ab"), 300).read == 200
    assert cache.bill_request(last("ab"), 600).read == 200
    assert cache.bill_request(last("ab"), 901) == Bill(written=200)


def test_an_hour_is_billed_apart_and_lives_an_hour() -> None:
    cache = ProviderCache(SMALL)
    assert cache.bill_request(prompt("ab", {0: HOUR_S, 1: FIVE_MINUTES_S}), 0) == Bill(
        written=100, written_for_an_hour=100
    )
    assert cache.bill_request(prompt("ab", {0: HOUR_S, 1: FIVE_MINUTES_S}), 3600) == Bill(read=100, written=100)


def test_another_block_anywhere_before_the_point_loses_all_after_it() -> None:
    cache = ProviderCache(SMALL)
    cache.bill_request(prompt("abcd", {0: FIVE_MINUTES_S, 3: FIVE_MINUTES_S}), 0)
    assert cache.bill_request(prompt("aXcd", {0: FIVE_MINUTES_S, 3: FIVE_MINUTES_S}), 1) == Bill(read=100, written=300)


@pytest.mark.parametrize(("further", "read"), [(19, 100), (20, 0)])
def test_a_point_looks_back_over_twenty_blocks(further: int, read: int) -> None:
    cache = ProviderCache(SMALL)
    cache.bill_request(last("a"), 0)
    assert cache.bill_request(last("a" + "bcdefghijklmnopqrstuv"[:further]), 1).read == read


def test_a_prefix_below_the_minimum_is_not_cached() -> None:
    cache = ProviderCache(OPUS)
    assert cache.bill_request(last("ab"), 0) == Bill(plain=200)
    assert cache.bill_request(last("ab"), 1) == Bill(plain=200)


def test_more_than_four_points_are_refused() -> None:
    with pytest.raises(RequestRefusedError, match="at most 4 cache points, got 5"):
        ProviderCache(SMALL).bill_request(prompt("abcde", dict.fromkeys(range(5), FIVE_MINUTES_S)), 0)


def test_an_hour_after_five_minutes_is_refused() -> None:
    with pytest.raises(RequestRefusedError, match="longer lifetimes come first"):
        ProviderCache(SMALL).bill_request(prompt("ab", {0: FIVE_MINUTES_S, 1: HOUR_S}), 0)


def test_marking_what_is_read_does_not_make_it_live_longer() -> None:
    cache = ProviderCache(SMALL)
    cache.bill_request(last("abc"), 0)
    assert cache.bill_request(prompt("abc", {1: HOUR_S, 2: HOUR_S}), 1) == Bill(read=300)
    assert cache.bill_request(last("abc"), 400).read == 0


@pytest.mark.parametrize(("rules", "read"), [(SMALL, 300), (CAREFUL_SMALL, 0)])
def test_the_two_readings_differ_in_an_hour_that_continues_five_minutes(rules: CachePricing, read: int) -> None:
    cache = ProviderCache(rules)
    cache.bill_request(last("ab"), 0)
    assert cache.bill_request(last("abc", HOUR_S), 1) == Bill(read=200, written_for_an_hour=100)
    assert cache.bill_request(last("abc"), 1000).read == read


def test_a_bill_costs_what_its_kinds_cost() -> None:
    bill = Bill(read=1_000_000, written=1_000_000, written_for_an_hour=1_000_000, plain=1_000_000)
    assert bill.usd(OPUS) == pytest.approx(5 * (0.1 + 1.25 + 2 + 1))
    assert bill.usd(CAREFUL) == bill.usd(OPUS)
    assert bill.share_read == 25


@given(st.lists(st.tuples(st.text("abc", min_size=1, max_size=30), st.floats(0, 1000)), max_size=12))
def test_every_token_is_billed_once(requests: list[tuple[str, float]]) -> None:
    cache = ProviderCache(SMALL)
    now_s = 0.0
    for names, pause_s in requests:
        now_s += pause_s
        bill = cache.bill_request(last(names), now_s)
        assert bill.tokens == 100 * len(names)
        assert min(bill.read, bill.written, bill.written_for_an_hour, bill.plain) >= 0
