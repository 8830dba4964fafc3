"""Marks in notes move the steps of the current plan, and only of that."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.codes import CODES
from timeloom.core.ids import PlanId, TurnId
from timeloom.core.plans.acknowledge import Acknowledgement, acknowledge_steps, read_notes, unknown_steps
from timeloom.core.plans.changes import Moment, PlanRevision
from timeloom.core.plans.marks import MAX_MARK_NUMBER, StepMark, find_marks
from timeloom.core.plans.snapshot import PlanSnapshot, StepStatus

NOW = Moment(TurnId("turn_2_b"), "2026-02-09T02:14:32Z")
LATER = Moment(TurnId("turn_3_c"), "2026-02-09T02:15:00Z")
STATUSES = st.sampled_from(get_args(StepStatus))
MARKS = st.lists(st.builds(StepMark, st.integers(1, MAX_MARK_NUMBER) | st.integers(1, 6), STATUSES, st.just("")))


def plan(*statuses: StepStatus, closed_ts: str = "") -> PlanSnapshot:
    return PlanSnapshot(
        plan_id=PlanId("plan_alpha"),
        steps=tuple(f"step {n}" for n in range(len(statuses))),
        statuses=statuses,
        created_ts="2026-02-09T02:00:00Z",
        last_ts="2026-02-09T02:00:00Z",
        origin_turn_id=TurnId("turn_1_a"),
        last_turn_id=TurnId("turn_1_a"),
        closed_ts=closed_ts,
    )


def moved(changed: PlanRevision | None) -> tuple[StepStatus, ...]:
    assert changed is not None
    assert changed.change == "progress"
    return changed.snapshot.statuses


def test_marks_move_their_steps_and_leave_the_others() -> None:
    changed = acknowledge_steps(plan("pending", "pending", "failed"), find_marks("✓ [1]\n… 2. reading"), NOW)
    assert moved(changed) == ("done", "in_progress", "failed")


def test_progress_keeps_where_a_plan_came_from_and_notes_when_it_moved() -> None:
    before = plan("pending", "pending")
    changed = acknowledge_steps(before, find_marks("✓ [1]"), NOW)
    assert changed is not None
    after = changed.snapshot
    assert (after.last_ts, after.last_turn_id) == (NOW.ts, NOW.turn_id)
    assert (after.created_ts, after.origin_turn_id, after.steps) == (before.created_ts, "turn_1_a", before.steps)


def test_a_step_may_go_back_to_pending() -> None:
    assert moved(acknowledge_steps(plan("done", "in_progress"), find_marks("□ [1]"), NOW)) == ("pending", "in_progress")


def test_the_last_open_step_completes_the_plan() -> None:
    changed = acknowledge_steps(plan("done", "in_progress"), find_marks("✗ [2] no data"), NOW)
    assert changed is not None
    assert changed.snapshot.state == "complete"


@pytest.mark.parametrize("snapshot", [plan("done", "done"), plan("pending", "pending", closed_ts="t")])
def test_a_plan_that_is_not_open_does_not_move(snapshot: PlanSnapshot) -> None:
    assert acknowledge_steps(snapshot, find_marks("□ [1]\n… [2]"), NOW) is None


def test_marks_that_say_what_is_known_change_nothing() -> None:
    assert acknowledge_steps(plan("done", "pending"), find_marks("✓ [1]\n□ [2]"), NOW) is None


def test_numbers_that_no_step_has_are_named_in_order() -> None:
    assert unknown_steps(plan("pending", "pending"), find_marks("✓ [9]\n✓ [2]\n✗ [3]\n… 9. x")) == (3, 9)


def test_notes_are_recorded_as_the_marks_were_written() -> None:
    notes = "I found three.\n  ✓ 1. Locate sources\n… 2. Draft report — in progress\nMore soon."
    read = read_notes(notes, plan("pending", "pending"), NOW, changes_lifecycle=False)
    assert moved(read.changed) == ("done", "in_progress")
    assert read.text == "✓ 1. Locate sources\n… 2. Draft report — in progress"
    assert read.notice is None


def test_an_unknown_step_is_reported_and_the_others_count() -> None:
    read = read_notes("✓ [1]\n✓ [7]", plan("pending", "pending"), NOW, changes_lifecycle=False)
    assert moved(read.changed) == ("done", "pending")
    assert read.notice is not None
    assert read.notice.code == "plan_step_unknown"
    assert "steps 1 to 2, got 7" in read.notice.text


@pytest.mark.parametrize("notes", ["", "no marks here", "□ [1]"])
def test_notes_that_move_nothing_leave_nothing_to_record(notes: str) -> None:
    assert read_notes(notes, plan("pending"), NOW, changes_lifecycle=False) == Acknowledgement()


@pytest.mark.parametrize("notes", ["", "✓ [1]\n✓ [2]"])
def test_without_a_current_plan_marks_are_mere_text(notes: str) -> None:
    assert read_notes(notes, None, NOW, changes_lifecycle=False) == Acknowledgement()


@pytest.mark.parametrize(("notes", "current"), [("✓ [1]", plan("pending")), ("… [1]", None)])
def test_a_round_that_changes_the_lifecycle_acknowledges_nothing_and_says_so(
    notes: str, current: PlanSnapshot | None
) -> None:
    read = read_notes(notes, current, NOW, changes_lifecycle=True)
    assert (read.changed, read.text) == (None, "")
    assert read.notice is not None
    assert read.notice.code == "plan_ack_in_lifecycle_round"


@pytest.mark.parametrize(
    ("notes", "current"),
    [("□ [1] a\n□ [2] b", None), ("no marks", None), ("✓ [1]", plan("done", "pending")), ("✓ [9]", plan("pending"))],
)
def test_in_such_a_round_marks_that_would_move_nothing_pass_in_silence(
    notes: str, current: PlanSnapshot | None
) -> None:
    assert read_notes(notes, current, NOW, changes_lifecycle=True) == Acknowledgement()


@given(st.lists(STATUSES, min_size=1, max_size=50).map(lambda statuses: plan(*statuses)), MARKS)
def test_acknowledging_twice_is_acknowledging_once(snapshot: PlanSnapshot, marks: list[StepMark]) -> None:
    once = acknowledge_steps(snapshot, marks, NOW)
    assert acknowledge_steps(once.snapshot if once else snapshot, marks, LATER) is None


@given(st.lists(STATUSES, min_size=1, max_size=6).map(lambda statuses: plan(*statuses)), MARKS)
def test_a_moved_step_has_the_status_of_its_last_mark(snapshot: PlanSnapshot, marks: list[StepMark]) -> None:
    changed = acknowledge_steps(snapshot, marks, NOW)
    after = changed.snapshot if changed else snapshot
    assert after.steps == snapshot.steps
    for step, (was, now) in enumerate(zip(snapshot.statuses, after.statuses, strict=True), 1):
        asked = [mark.status for mark in marks if mark.step == step]
        assert now == (asked[-1] if asked and snapshot.state == "open" else was)


@given(st.text() | st.text("✓✗…□[]0123456789.\n "), st.none() | st.just(plan("pending", "done")), st.booleans())
def test_any_notes_can_be_read(notes: str, current: PlanSnapshot | None, changes_lifecycle: bool) -> None:
    read = read_notes(notes, current, NOW, changes_lifecycle=changes_lifecycle)
    assert (read.changed is None) == (read.text == "")
    assert read.changed is None or not changes_lifecycle
    assert read.notice is None or read.notice.code in CODES
