"""Compaction: when a request is too large, where the conversation is cut, and how long its summary is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.policy.test_pruning import after, conversation, views_of
from timeloom.core.blocks import RangeSummary, RoundStarted, TurnStarted, UserPrompt
from timeloom.core.policy.compaction import (
    CompactSettings,
    Size,
    best_cut,
    kept_tokens,
    last_cut,
    most_tokens,
    summary_tokens,
)

SETTINGS = CompactSettings()


def size(cacheable: int, window: int = 200_000, fixed: int = 5_000, reply: int = 8_000) -> Size:
    return Size(cacheable=cacheable, fixed=fixed, reply=reply, window=window)


def test_request_and_reply_have_their_share_of_the_window() -> None:
    assert most_tokens(size(1), SETTINGS) == 170_000
    assert size(100).prompt == 5_100
    assert size(100).total == 13_100


def test_what_a_provider_found_too_long_must_lose_half_of_the_conversation() -> None:
    assert most_tokens(size(40_000), SETTINGS, smaller=True) == 33_000
    assert most_tokens(size(900_000), SETTINGS, smaller=True) == 170_000


@pytest.mark.parametrize(("window", "tokens"), [(200_000, 6_000), (40_000, 4_000), (12_000, 0)])
def test_a_summary_is_bounded_by_the_window(window: int, tokens: int) -> None:
    one = size(1, window=window)
    assert summary_tokens(one, most_tokens(one, SETTINGS), SETTINGS) == tokens


@given(st.integers(1, 500_000), st.integers(0, 50_000), st.integers(0, 50_000))
def test_what_stays_fits_with_a_summary_in_front(window: int, fixed: int, reply: int) -> None:
    one = size(1, window, fixed, reply)
    most = most_tokens(one, SETTINGS)
    kept, summary = kept_tokens(one, most, SETTINGS), summary_tokens(one, most, SETTINGS)
    assert kept == 0 or kept + summary + fixed + reply <= most
    assert 0 <= summary <= max(0, window // 10)


def test_newer_turns_stay_whole() -> None:
    views = views_of(conversation(5))
    # Each entry is a token, and a turn has six.
    assert best_cut(views, 12, lambda seq: views.tail + 1 - seq) == 19
    assert best_cut(views, 17, lambda seq: views.tail + 1 - seq) == 19
    assert best_cut(views, 6, lambda seq: views.tail + 1 - seq) == 25


def test_a_turn_that_is_too_large_is_cut_between_two_rounds() -> None:
    views = views_of(conversation(1, rounds=9))
    assert best_cut(views, 5, lambda seq: views.tail + 1 - seq) == 9
    assert best_cut(views, 0, lambda seq: views.tail + 1 - seq) == last_cut(views) == 11


def test_a_cut_comes_after_what_is_summed_up() -> None:
    drafts = conversation(5)
    summary = after(5, RangeSummary(covered_turn_ids=(), text="sum", first_seq=2, last_seq=25))
    views = views_of([*drafts, summary])
    assert best_cut(views, 1_000, lambda _: 0) == 28
    assert last_cut(views) == 28


def test_where_nothing_can_be_cut_there_is_no_cut() -> None:
    views = views_of([after(1, TurnStarted(n=1)), after(1, UserPrompt(text="go")), after(1, RoundStarted(round=1))])
    assert best_cut(views, 0, lambda _: 9) == last_cut(views) == 0
