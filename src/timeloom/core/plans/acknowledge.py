"""Updates the steps of the current plan from the marks in a round's notes."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from timeloom.core.plans.changes import Moment, PlanRevision
from timeloom.core.plans.marks import StepMark, find_marks
from timeloom.core.plans.snapshot import PlanSnapshot


class PlanNotice(msgspec.Struct, frozen=True):
    """Notice for the model about its marks: a code of the registry and a sentence."""

    code: str
    text: str


class Acknowledgement(msgspec.Struct, frozen=True):
    """Effect of a round's notes on the current plan; `text` holds the marks as written if a step changed."""

    changed: PlanRevision | None = None
    text: str = ""
    notice: PlanNotice | None = None


def read_notes(notes: str, current: PlanSnapshot | None, moment: Moment, *, changes_lifecycle: bool) -> Acknowledgement:
    """Return the change that the notes' marks make, and a notice about marks that do not count.

    In a round that also opens, replaces, activates or closes a plan, the marks are ambiguous, so none count. Without a
    current plan, marks are plain text: models often repeat the checklist of a finished plan.
    """
    marks = find_marks(notes)
    if changes_lifecycle:
        return Acknowledgement(notice=_ignored_marks_notice(marks, current, moment))
    if current is None:
        return Acknowledgement()
    changed = acknowledge_steps(current, marks, moment)
    text = "\n".join(mark.line for mark in marks) if changed else ""
    return Acknowledgement(changed=changed, text=text, notice=_unknown_steps_notice(marks, current))


def acknowledge_steps(plan: PlanSnapshot, marks: Iterable[StepMark], moment: Moment) -> PlanRevision | None:
    """Return the plan with the marked steps updated; None if no step changes or the plan is not open."""
    if plan.state != "open":
        return None
    marked = {mark.step: mark.status for mark in marks}
    statuses = tuple(marked.get(step, status) for step, status in enumerate(plan.statuses, 1))
    if statuses == plan.statuses:
        return None
    moved = replace(plan, statuses=statuses, last_ts=moment.ts, last_turn_id=moment.turn_id)
    return PlanRevision(moved, "progress")


def unknown_steps(plan: PlanSnapshot, marks: Iterable[StepMark]) -> tuple[int, ...]:
    """Return the marked step numbers that the plan does not have, ascending."""
    return tuple(sorted({mark.step for mark in marks if mark.step > len(plan.steps)}))


def _ignored_marks_notice(
    marks: tuple[StepMark, ...], current: PlanSnapshot | None, moment: Moment
) -> PlanNotice | None:
    # Models often write the empty checklist of a plan that they open; ignoring it loses nothing.
    if current is None:
        says_something = any(mark.status != "pending" for mark in marks)
    else:
        says_something = acknowledge_steps(current, marks, moment) is not None
    if not says_something:
        return None
    return PlanNotice(
        "plan_ack_in_lifecycle_round",
        "no step was marked, because this round also changed which plans there are; repeat the marks next round",
    )


def _unknown_steps_notice(marks: tuple[StepMark, ...], current: PlanSnapshot) -> PlanNotice | None:
    unknown = unknown_steps(current, marks)
    if not unknown:
        return None
    got = ", ".join(map(str, unknown))
    return PlanNotice(
        "plan_step_unknown", f"the current plan {current.plan_id} has steps 1 to {len(current.steps)}, got {got}"
    )
