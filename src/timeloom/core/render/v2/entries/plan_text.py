"""Renders plan blocks."""

from typing import assert_never

from timeloom.core.blocks import PlanAcknowledged, PlanRecorded, PlansCompacted
from timeloom.core.blocks.plan import PlanSkeleton
from timeloom.core.plans.marks import marker
from timeloom.core.plans.snapshot import PlanSnapshot, is_folded
from timeloom.core.render.entry_text import NO_TEXT, EntryText
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.names import Names
from timeloom.core.render.v2.entries.channel_text import read_call, text_without_gap

MAX_STEP_CHARS = 600
"""Maximum length of a step, as a plan may have recorded it."""

PlanBlock = PlanRecorded | PlanAcknowledged | PlansCompacted


def plan_text(block: PlanBlock, names: Names) -> EntryText:
    """Return the text of a plan block."""
    match block:
        case PlanRecorded(snapshot=plan, change="progress"):
            # Marks always belong to the current plan, so its id is not repeated.
            return text_without_gap(f"[PLAN] {_signs(plan)}")
        case PlanRecorded(snapshot=plan, change=change):
            opened = "" if change == "new" else change
            return text_without_gap(
                f"[PLAN {plan.plan_id}] {opened if plan.state == 'open' else plan.state}".rstrip(), *_steps(plan)
            )
        case PlanAcknowledged():
            # The notes before it contain the marks, and the plan after it shows what they changed.
            return NO_TEXT
        case PlansCompacted(plans=plans):
            lines = [line for row in plans for line in (_earlier_plan(row, names), *_steps(row.snapshot))]
            return text_without_gap(*lines)
        case _:
            assert_never(block)


def _earlier_plan(row: PlanSkeleton, names: Names) -> str:
    plan = row.snapshot
    return f"[EARLIER PLAN {plan.plan_id}] {plan.state}, {_signs(plan)}: {read_call(names.path(row.snapshot_ref))}"


def _steps(plan: PlanSnapshot) -> list[str]:
    steps = zip(plan.steps, plan.statuses, strict=True)
    return [
        f"{marker(status)} {n}) {step_line(plan, step, MAX_STEP_CHARS)}" for n, (step, status) in enumerate(steps, 1)
    ]


def step_line(plan: PlanSnapshot, step: str, limit: int) -> str:
    """Return the step for use within one line; if its white space matters, as a JSON string."""
    if not plan.verbatim or is_folded(step):
        return one_line(step, limit)
    return json_line(step if len(step) <= limit else step[: limit - 1] + "…")


def _signs(plan: PlanSnapshot) -> str:
    return " ".join(f"{marker(status)}{n}" for n, status in enumerate(plan.statuses, 1))
