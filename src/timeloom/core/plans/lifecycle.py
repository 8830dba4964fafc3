"""Opens, replaces, activates and closes plans, or explains the refusal."""

from collections.abc import Sequence
from typing import Final, Protocol, assert_never

import msgspec
from msgspec.structs import replace

from timeloom.core.ids import PlanId
from timeloom.core.plans.changes import Moment, PlanRevision
from timeloom.core.plans.snapshot import PlanError, PlanSnapshot, is_folded

MAX_LISTED: Final = 10
"""Most open plans that a message names. Fewer may omit the intended one; more are not read."""


class NewPlan(msgspec.Struct, frozen=True):
    """Open a plan with these steps."""

    steps: tuple[str, ...]


class ReplacePlan(msgspec.Struct, frozen=True):
    """Supersede an open plan (the current one if none is named) by a new one."""

    steps: tuple[str, ...]
    plan_id: PlanId | None = None


class ActivatePlan(msgspec.Struct, frozen=True):
    """Make an open plan the current one."""

    plan_id: PlanId


class ClosePlan(msgspec.Struct, frozen=True):
    """Close an open plan (the current one if none is named)."""

    plan_id: PlanId | None = None


PlanCommand = NewPlan | ReplacePlan | ActivatePlan | ClosePlan
"""Union of the commands that change plans."""


class KnownPlans(Protocol):
    """Read access to the plans of a conversation, as far as a command needs it."""

    @property
    def current(self) -> PlanId | None:
        """Id of the one plan whose steps can be acknowledged; None if there is none."""
        ...

    def latest(self, plan_id: PlanId) -> PlanSnapshot | None:
        """Return the newest snapshot of that plan; None if the id is unknown."""
        ...

    def last_open(self, limit: int) -> Sequence[PlanSnapshot]:
        """Return the most recently changed open plans, newest last."""
        ...


def parse_plan_command(mode: str, steps: Sequence[object] = (), plan_id: str = "") -> PlanCommand:
    """Return the command for a mode and its arguments; raise on missing, superfluous or unknown ones."""
    lines = _check_steps(steps)
    target = PlanId(plan_id) if plan_id else None
    match (mode, bool(lines), target):
        case ("new", True, None):
            return NewPlan(lines)
        case ("replace", True, _):
            return ReplacePlan(lines, target)
        case ("activate", False, str()):
            return ActivatePlan(PlanId(target))
        case ("close", False, _):
            return ClosePlan(target)
        case _:
            raise PlanError("plan_malformed", _usage_message(mode, lines, plan_id))


def apply_plan_command(
    command: PlanCommand, plans: KnownPlans, moment: Moment, fresh_id: PlanId
) -> tuple[PlanRevision, ...]:
    """Return the snapshots that the command produces, in recording order; empty if nothing changes.

    `fresh_id` becomes the id of the plan that `new` and `replace` open.
    """
    match command:
        case NewPlan(steps=steps):
            return (PlanRevision(_new_snapshot(steps, plans, moment, fresh_id), "new"),)
        case ReplacePlan(steps=steps, plan_id=target):
            old = _with_last_change(_open_plan(target, plans), moment)
            new = _new_snapshot(steps, plans, moment, fresh_id)
            return PlanRevision(replace(old, superseded_ts=moment.ts), "replace"), PlanRevision(new, "replace")
        case ActivatePlan(plan_id=target):
            plan = _open_plan(target, plans)
            return () if target == plans.current else (PlanRevision(_with_last_change(plan, moment), "activate"),)
        case ClosePlan(plan_id=target):
            plan = _with_last_change(_open_plan(target, plans), moment)
            return (PlanRevision(replace(plan, closed_ts=moment.ts), "close"),)
    assert_never(command)


def _check_steps(steps: Sequence[object]) -> tuple[str, ...]:
    if isinstance(steps, str):
        raise PlanError("plan_malformed", "a step is a text in a list of steps, got one text for all")
    lines: list[str] = []
    for number, step in enumerate(steps, 1):
        if not isinstance(step, str):
            raise PlanError("plan_malformed", f"a step is a text, got {type(step).__name__} for step {number}")
        lines.append(step)
    return tuple(lines)


def _usage_message(mode: str, steps: tuple[str, ...], plan_id: str) -> str:
    got = f"{mode[:40]!r} with {len(steps)} steps and {'a' if plan_id else 'no'} plan_id"
    match mode:
        case "new":
            return f"'new' takes steps and no plan_id, for it makes one; got {got}"
        case "replace":
            return f"'replace' takes the steps of the new plan, and the plan_id of the old; got {got}"
        case "activate":
            return f"'activate' takes the plan_id of an open plan and no steps; got {got}"
        case "close":
            return f"'close' takes the plan_id of an open plan and no steps; got {got}"
        case _:
            return f"mode is 'new', 'replace', 'activate' or 'close'; got {got}"


def _new_snapshot(steps: tuple[str, ...], plans: KnownPlans, moment: Moment, fresh_id: PlanId) -> PlanSnapshot:
    # Snapshots are linked by plan id, so a second plan with the same id would overwrite the first.
    if plans.latest(fresh_id) is not None:
        raise PlanError("plan_malformed", f"a new plan has an id of its own, got {fresh_id!r}, which is taken")
    return PlanSnapshot(
        plan_id=fresh_id,
        steps=steps,
        statuses=("pending",) * len(steps),
        created_ts=moment.ts,
        last_ts=moment.ts,
        origin_turn_id=moment.turn_id,
        last_turn_id=moment.turn_id,
        verbatim=not all(map(is_folded, steps)),
    )


def _open_plan(target: PlanId | None, plans: KnownPlans) -> PlanSnapshot:
    wanted = plans.current if target is None else target
    if wanted is None:
        raise PlanError("plan_unknown", f"no plan is current, so name one by its plan_id; {_list_open_plans(plans)}")
    plan = plans.latest(wanted)
    if plan is None:
        raise PlanError("plan_unknown", f"no plan has the id {wanted[:80]!r}; {_list_open_plans(plans)}")
    if plan.state != "open":
        raise PlanError("plan_not_open", f"the plan {wanted!r} is {plan.state}; {_list_open_plans(plans)}")
    return plan


def _list_open_plans(plans: KnownPlans) -> str:
    listed = ", ".join(plan.plan_id for plan in plans.last_open(MAX_LISTED))
    return f"open: {listed}" if listed else "no plan is open"


def _with_last_change(plan: PlanSnapshot, moment: Moment) -> PlanSnapshot:
    return replace(plan, last_ts=moment.ts, last_turn_id=moment.turn_id)
