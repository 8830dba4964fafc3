"""The tool `react.plan`: opens, replaces, activates and closes plans."""

from itertools import count

import msgspec

from timeloom.core.blocks import PlanRecorded
from timeloom.core.ids import PlanId, make_plan_id
from timeloom.core.paths import LatestPlanPath
from timeloom.core.payload import ref_of
from timeloom.core.plans.changes import Moment, PlanMode, PlanRevision
from timeloom.core.plans.lifecycle import apply_plan_command, parse_plan_command
from timeloom.core.plans.snapshot import PlanState
from timeloom.core.view.plans import PlansView
from timeloom.ports.clock import timestamp
from timeloom.ports.tool import Outcome, ToolContext


class ChangedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a plan after the call, and the path of its newest snapshot."""

    plan_id: str
    state: PlanState
    current: bool
    steps: int
    path: str


class PlanStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a call: the plans that it changed; empty if nothing changed."""

    mode: str
    changed: tuple[ChangedPlan, ...]
    current: str | None


async def plan(context: ToolContext, mode: PlanMode, steps: tuple[str, ...] = (), plan_id: str = "") -> Outcome:
    """Open, replace, activate or close a plan: a checklist that stays in sight.

    mode: replace retires a plan for a new one; activate makes an open plan the current one
    steps: for new and replace: 1 to 50 lines
    plan_id: for activate; for replace and close if it is not the current plan
    """
    plans = context.timeline.views.plans
    moment = Moment(context.turn_id, timestamp(context.epoch_us))
    changes = apply_plan_command(
        parse_plan_command(mode, steps, plan_id), plans, moment, _unused_plan_id(context, plans)
    )
    current = _find_current(plans, changes)
    status = PlanStatus(
        mode=mode, changed=tuple(_to_changed_plan(change, current) for change in changes), current=current
    )
    blocks = tuple(PlanRecorded(snapshot=change.snapshot, change=change.change) for change in changes)
    return Outcome(blocks=blocks, status=msgspec.json.encode(status).decode())


def _unused_plan_id(context: ToolContext, plans: PlansView) -> PlanId:
    """Return an unused plan id, derived from the call id so that a repeated call opens no second plan."""
    start = int(ref_of(context.tool_call_id.encode()).sha256, 16)
    ids = (make_plan_id(context.turn_id, start + n) for n in count())
    return next(each for each in ids if plans.latest(each) is None)


def _find_current(plans: PlansView, changes: tuple[PlanRevision, ...]) -> PlanId | None:
    current = plans.current
    for change in changes:
        if change.snapshot.state == "open":
            current = change.snapshot.plan_id
        elif change.snapshot.plan_id == current:
            current = None
    return current


def _to_changed_plan(change: PlanRevision, current: PlanId | None) -> ChangedPlan:
    plan = change.snapshot
    return ChangedPlan(
        plan_id=plan.plan_id,
        state=plan.state,
        current=plan.plan_id == current,
        steps=len(plan.steps),
        path=str(LatestPlanPath(plan.plan_id)),
    )
