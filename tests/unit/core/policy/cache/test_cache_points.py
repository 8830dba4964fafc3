"""Cache points: at most three, found by counting rounds; blocks after the second may be hidden."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import ConversationStarted, Cut, Pruned, RoundStarted, TurnStarted, UserPrompt
from timeloom.core.ids import TurnId
from timeloom.core.policy.cache.points import (
    MAX_SCANNED_TURNS,
    CachePoints,
    CacheSettings,
    can_hide,
    editable_after,
    find_cache_points,
)
from timeloom.core.timeline import NO_TURN, Draft, Entry, to_entry
from timeloom.core.view.views import Views, fold
from timeloom.testing.strategies import timelines

TS = "2026-02-09T02:14:32.676425Z"


def views(*rounds: int) -> Views:
    """Turns of so many rounds each: the header, then per turn its header, its prompt and its rounds."""
    drafts = [Draft(NO_TURN, TS, ConversationStarted(tenant="t", project="p", user="u"))]
    for n, count in enumerate(rounds, 1):
        turn = TurnId(f"turn_{n}")
        drafts += [Draft(turn, TS, TurnStarted(n=n)), Draft(turn, TS, UserPrompt(text="x"))]
        drafts += [Draft(turn, TS, RoundStarted(round=r)) for r in range(1, count + 1)]
    return fold(to_entry(draft, seq) for seq, draft in enumerate(drafts, 1))


def test_a_short_conversation_has_only_its_tail() -> None:
    assert find_cache_points(views(4)) == CachePoints(0, 0, 7)
    assert find_cache_points(Views()) == CachePoints()
    assert find_cache_points(Views()).seqs == ()


def test_the_pre_tail_point_is_the_end_of_the_round_before_the_last_few() -> None:
    # Rounds 1 to 6 begin at seqs 4 to 9; the last four begin at 6.
    assert find_cache_points(views(6)) == CachePoints(0, 5, 9)


def test_rounds_are_counted_over_turns() -> None:
    # Turn 1: rounds at 4, 5, 6; turn 2: header 7, prompt 8, rounds at 9, 10.
    points = find_cache_points(views(3, 2))
    assert points == CachePoints(settled=6, pre_tail=4, tail=10)
    assert points.seqs == (4, 6, 10)


def test_what_was_pruned_is_kept_by_a_point_for_the_next_prune() -> None:
    log = views(3, 8)
    pruned = Draft(log.turns.newest, TS, Pruned(cuts=(Cut(9, 11, "rows"),)))
    log.add(to_entry(pruned, log.tail + 1))
    assert find_cache_points(log) == CachePoints(settled=11, pre_tail=12, tail=17)


def test_rounds_of_very_old_turns_are_not_looked_for() -> None:
    quiet = [0] * (MAX_SCANNED_TURNS - 1)
    assert editable_after(views(5, *quiet)) == 4
    assert editable_after(views(5, *quiet, 0)) == 0


def test_points_that_fall_together_are_one() -> None:
    assert CachePoints(5, 5, 9).seqs == (5, 9)


def test_the_number_of_rounds_is_a_setting() -> None:
    assert editable_after(views(3), CacheSettings(min_rounds=2, offset_rounds=1)) == 5
    assert editable_after(views(3), CacheSettings(min_rounds=4, offset_rounds=1)) == 0
    assert editable_after(views(3), CacheSettings(offset_rounds=0)) == 6


def test_only_what_lies_after_the_point_and_in_the_tail_may_be_hidden() -> None:
    settings = CacheSettings(editable_tail_tokens=1000)
    assert can_hide(6, 100, 900, 5, settings)
    assert not can_hide(5, 100, 900, 5, settings)
    assert not can_hide(6, 100, 1100, 5, settings)


def test_a_block_larger_than_the_tail_need_only_lie_after_the_point() -> None:
    settings = CacheSettings(editable_tail_tokens=1000)
    assert can_hide(6, 1001, 5000, 5, settings)
    assert not can_hide(5, 1001, 5000, 5, settings)


@given(timelines(), st.integers(0, 6), st.integers(0, 6))
def test_points_of_any_log_lie_in_it_and_are_three_at_most(entries: Sequence[Entry], least: int, offset: int) -> None:
    log = fold(entries)
    points = find_cache_points(log, CacheSettings(min_rounds=least, offset_rounds=offset))
    assert len(points.seqs) <= 3
    assert all(0 < seq <= log.tail for seq in points.seqs)
    assert points.tail == log.tail
