"""Compaction: when a request is too large, where the conversation is cut, and how long its summary is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.policy.test_pruning import after, conversation, views_of
from timeloom.core.blocks import RangeSummary, RoundStarted, TurnStarted, UserPrompt
from timeloom.core.policy.compaction import (
    READ_LINE_TOKENS,
    CompactSettings,
    RequestSize,
    find_best_cut,
    find_last_cut,
    find_requested_cut,
    max_entry_tokens,
    max_kept_tokens,
    max_request_tokens,
    max_summary_tokens,
    needs_exact_size,
)

SETTINGS = CompactSettings()


def size(cacheable: int, window: int = 200_000, fixed: int = 5_000, reply: int = 8_000) -> RequestSize:
    return RequestSize(cacheable=cacheable, fixed=fixed, reply=reply, window=window)


def test_request_and_reply_have_their_share_of_the_window() -> None:
    assert max_request_tokens(size(1), SETTINGS) == 170_000
    assert size(100).prompt == 5_100
    assert size(100).total == 13_100


def test_what_a_provider_found_too_long_must_lose_half_of_the_conversation() -> None:
    assert max_request_tokens(size(40_000), SETTINGS, smaller=True) == 33_000
    assert max_request_tokens(size(900_000), SETTINGS, smaller=True) == 170_000


def test_the_exact_size_is_needed_close_to_the_limit_and_after_a_rejection() -> None:
    # The limit is 170,000 tokens, the margin 1,000.
    assert not needs_exact_size(size(156_000), SETTINGS)
    assert needs_exact_size(size(156_001), SETTINGS)
    assert needs_exact_size(size(1), SETTINGS, smaller=True)


@pytest.mark.parametrize(("window", "tokens"), [(200_000, 6_000), (40_000, 4_000), (12_000, 0)])
def test_a_summary_is_bounded_by_the_window(window: int, tokens: int) -> None:
    one = size(1, window=window)
    assert max_summary_tokens(one, max_request_tokens(one, SETTINGS), SETTINGS) == tokens


@given(st.integers(1, 500_000), st.integers(0, 50_000), st.integers(0, 50_000))
def test_what_stays_fits_with_a_summary_in_front(window: int, fixed: int, reply: int) -> None:
    one = size(1, window, fixed, reply)
    most = max_request_tokens(one, SETTINGS)
    kept, summary = max_kept_tokens(one, most, SETTINGS), max_summary_tokens(one, most, SETTINGS)
    assert kept == 0 or kept + summary + fixed + reply <= most
    assert 0 <= summary <= max(0, window // 10)


def test_newer_turns_stay_whole() -> None:
    views = views_of(conversation(5))
    # Each entry is a token, and a turn has six.
    assert find_best_cut(views, 12, lambda seq: views.tail + 1 - seq) == 19
    assert find_best_cut(views, 17, lambda seq: views.tail + 1 - seq) == 19
    assert find_best_cut(views, 6, lambda seq: views.tail + 1 - seq) == 25


def test_a_turn_that_is_too_large_is_cut_between_two_rounds() -> None:
    views = views_of(conversation(1, rounds=9))
    assert find_best_cut(views, 5, lambda seq: views.tail + 1 - seq) == 9
    assert find_best_cut(views, 0, lambda seq: views.tail + 1 - seq) == find_last_cut(views) == 11


def test_a_cut_comes_after_what_is_summed_up() -> None:
    drafts = conversation(5)
    summary = after(5, RangeSummary(covered_turn_ids=(), text="sum", first_seq=2, last_seq=25))
    views = views_of([*drafts, summary])
    assert find_best_cut(views, 1_000, lambda _: 0) == 28
    assert find_last_cut(views) == 28


def test_a_requested_compaction_keeps_that_many_rounds() -> None:
    views = views_of(conversation(1, rounds=9))
    rounds = views.turns.turns[views.turns.newest].rounds
    for keep in range(1, 9):
        assert find_requested_cut(views, keep, 0, lambda _: 9) == rounds[-keep].first_seq - 1
    assert find_requested_cut(views, 9, 0, lambda _: 9) == find_requested_cut(views, 50, 0, lambda _: 9) == 0


def test_a_requested_compaction_keeps_two_rounds_unless_they_are_too_large() -> None:
    views = views_of(conversation(1, rounds=9))
    rounds = views.turns.turns[views.turns.newest].rounds
    assert find_requested_cut(views, 0, 100, lambda seq: views.tail + 1 - seq) == rounds[-2].first_seq - 1
    assert find_requested_cut(views, 0, 0, lambda seq: views.tail + 1 - seq) == find_last_cut(views)


def test_a_round_that_has_just_begun_is_not_one_of_those_that_stay() -> None:
    drafts = [after(1, TurnStarted(n=1)), after(1, UserPrompt(text="go"))]
    rounds = [after(1, RoundStarted(round=n)) for n in (1, 2, 3)]
    views = views_of([*drafts, *rounds])
    assert find_requested_cut(views, 1, 0, lambda _: 9) == 4


def test_where_nothing_can_be_cut_there_is_no_cut() -> None:
    views = views_of([after(1, TurnStarted(n=1)), after(1, UserPrompt(text="go")), after(1, RoundStarted(round=1))])
    assert find_best_cut(views, 0, lambda _: 9) == find_last_cut(views) == 0


@given(st.lists(st.integers(0, 9_000), max_size=8), st.integers(0, 50_000), st.integers(0, 500))
def test_large_entries_keep_as_much_as_fits(sizes: list[int], excess: int, least: int) -> None:
    most = max_entry_tokens(sizes, excess, least)
    lost, more = (sum(max(0, one - limit) for one in sizes) for limit in (most, most + 1))
    needed = excess + READ_LINE_TOKENS * len(sizes)
    assert most >= least
    assert lost >= needed or most == least
    assert more < needed or most == max([least, *sizes])
