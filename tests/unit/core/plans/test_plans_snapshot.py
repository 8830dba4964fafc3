"""Plan snapshots: refused values and derived states."""

from typing import cast

import msgspec
import pytest

from timeloom.core.ids import PlanId, TurnId
from timeloom.core.plans.changes import Moment
from timeloom.core.plans.snapshot import MAX_STEP_CHARS, MAX_STEPS, PlanError, PlanSnapshot, PlanState, StepStatus


def plan(
    *statuses: StepStatus,
    plan_id: str = "plan_alpha",
    steps: tuple[str, ...] = (),
    closed: str = "",
    superseded: str = "",
) -> PlanSnapshot:
    return PlanSnapshot(
        plan_id=PlanId(plan_id),
        steps=steps or tuple(f"step {n}" for n in range(1, len(statuses) + 1)),
        statuses=statuses,
        closed_ts=closed,
        superseded_ts=superseded,
    )


@pytest.mark.parametrize(
    ("snapshot", "state"),
    [
        (plan("pending"), "open"),
        (plan("done", "in_progress", "failed"), "open"),
        (plan("done", "failed"), "complete"),
        (plan("failed"), "complete"),
        (plan("pending", closed="t"), "closed"),
        (plan("done", closed="t"), "closed"),
        (plan("pending", closed="t", superseded="u"), "superseded"),
    ],
)
def test_a_plan_is_open_unless_superseded_closed_or_complete(snapshot: PlanSnapshot, state: PlanState) -> None:
    assert snapshot.state == state


@pytest.mark.parametrize("plan_id", ["", "has space", "../up", "x" * 129, "ünicode"])
def test_a_plan_id_has_its_shape(plan_id: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan("pending", plan_id=plan_id)
    assert refused.value.code == "plan_malformed"


@pytest.mark.parametrize("count", [0, MAX_STEPS + 1])
def test_a_plan_has_between_one_and_fifty_steps(count: int) -> None:
    with pytest.raises(PlanError, match=f"1 to {MAX_STEPS} steps, got {count}"):
        plan(*_pending(count))


@pytest.mark.parametrize("step", ["", "  ", "a\nb", "a\n", "a\rb", "a\u2028b", "a\x85", "x" * (MAX_STEP_CHARS + 1)])
def test_a_step_is_one_line_that_says_something(step: str) -> None:
    with pytest.raises(PlanError, match="step 2 is one line"):
        plan("pending", "pending", steps=("fine", step))


def test_a_verbatim_step_may_have_line_breaks_and_must_say_something() -> None:
    kept = PlanSnapshot(plan_id=PlanId("p1"), steps=("a\u2028b\nc",), statuses=("pending",), verbatim=True)
    assert msgspec.json.decode(msgspec.json.encode(kept), type=PlanSnapshot) == kept
    for step in (" \n", "x" * (MAX_STEP_CHARS + 1)):
        with pytest.raises(PlanError, match="step 1 is one line"):
            PlanSnapshot(plan_id=PlanId("p1"), steps=(step,), statuses=("pending",), verbatim=True)


def test_every_step_has_one_status() -> None:
    with pytest.raises(PlanError, match="2 statuses expected, got 1"):
        plan("pending", steps=("a", "b"))


def test_a_status_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PlanError, match="got 'paused'"):
        plan(cast(StepStatus, "paused"))


def test_what_a_constructor_refuses_does_not_decode_either() -> None:
    data = msgspec.json.encode({"plan_id": "plan_alpha", "steps": ["a\nb"], "statuses": ["pending"]})
    with pytest.raises(msgspec.ValidationError, match="one line"):
        msgspec.json.decode(data, type=PlanSnapshot)


@pytest.mark.parametrize(("turn", "ts"), [("", "t"), ("lunch", "t"), ("turn_1_a", "")])
def test_a_change_happens_in_a_turn_and_at_a_time(turn: str, ts: str) -> None:
    with pytest.raises(PlanError) as refused:
        Moment(TurnId(turn), ts)
    assert refused.value.code == "plan_malformed"


def _pending(count: int) -> list[StepStatus]:
    return ["pending"] * count
