"""A token bucket allows a burst and then a fixed rate per second."""

from hypothesis import given
from hypothesis import strategies as st

from timeloom.platform.token_bucket import TokenBucket


def test_those_that_come_at_once_wait_one_after_the_other() -> None:
    pace = TokenBucket(3, 2.0)
    assert [pace.wait_s(100.0) for _ in range(5)] == [0, 0, 0, 0.5, 1.0]


def test_who_was_quiet_for_a_while_need_not_wait() -> None:
    pace = TokenBucket(2, 10.0)
    for _ in range(20):
        pace.wait_s(5.0)
    assert pace.wait_s(6.0) > 0
    assert pace.wait_s(60.0) == 0


def test_a_large_one_counts_as_many() -> None:
    pace = TokenBucket(10, 1.0)
    assert pace.wait_s(0.0, 25) == 15
    assert pace.wait_s(0.0) == 16


def test_without_a_token_a_request_is_rejected_and_not_counted() -> None:
    bucket = TokenBucket(2, 4.0)
    assert [bucket.take_token(9.0) for _ in range(4)] == [0, 0, 0.25, 0.25]
    assert bucket.take_token(9.25) == 0


def test_tokens_are_refilled_up_to_the_burst() -> None:
    bucket = TokenBucket(2, 4.0)
    assert [bucket.take_token(1.0) for _ in range(3)] == [0, 0, 0.25]
    assert [bucket.take_token(100.0) for _ in range(3)] == [0, 0, 0.25]


@given(st.lists(st.floats(0, 0.5), max_size=40))
def test_no_more_than_the_pace_come_through_in_any_time(gaps: list[float]) -> None:
    """Each comes when the one before is through, as who is held up does."""
    pace, now_s = TokenBucket(4, 5.0), 0.0
    through: list[float] = []
    for gap in gaps:
        now_s += gap
        now_s += pace.wait_s(now_s)
        through.append(now_s)
    for first in range(len(through)):
        for last in range(first, len(through)):
            assert last - first + 1 <= 4 + 5.0 * (through[last] - through[first]) + 1.001
