"""Renders plan blocks."""

from typing import assert_never

from timeloom.core.blocks import PlanAcknowledged, PlanRecorded, PlansCompacted
from timeloom.core.plans.marks import marker
from timeloom.core.plans.snapshot import PlanSnapshot, is_folded
from timeloom.core.render.entry_text import EntryText, text_from_lines
from timeloom.core.render.foreign_text.fence import escape_reserved, one_line
from timeloom.core.render.foreign_text.json_text import json_line

PlanBlock = PlanRecorded | PlanAcknowledged | PlansCompacted


def plan_text(block: PlanBlock) -> EntryText:
    """Return the text of a plan block."""
    match block:
        case PlanRecorded(snapshot=plan, change="progress"):
            return text_from_lines(f"[REACT.PLAN] id={plan.plan_id} progress: {_signs(plan)}")
        case PlanRecorded(snapshot=plan, change=change):
            how = "" if change == "new" else f" ({change})"
            state = "" if plan.state == "open" else f" {plan.state}"
            return text_from_lines(f"[REACT.PLAN]{how}", f"id={plan.plan_id}{state}", *_steps(plan))
        case PlanAcknowledged(text=text):
            return text_from_lines("[REACT.PLAN.ACK]", escape_reserved(text))
        case PlansCompacted(plans=plans):
            rows = [f"id={row.snapshot.plan_id} {row.snapshot.state}, {_signs(row.snapshot)}, read: " for row in plans]
            lines = [
                line
                for head, row in zip(rows, plans, strict=True)
                for line in (head + one_line(row.snapshot_ref), *_steps(row.snapshot))
            ]
            return text_from_lines("[REACT.PLAN.HISTORY]", *lines)
        case _:
            assert_never(block)


def _steps(plan: PlanSnapshot) -> list[str]:
    steps = zip(plan.steps, plan.statuses, strict=True)
    return [f"{marker(status)} {n}) {step_line(plan, step, 600)}" for n, (step, status) in enumerate(steps, 1)]


def step_line(plan: PlanSnapshot, step: str, limit: int) -> str:
    """Return the step for use within one line; if its white space matters, as a JSON string."""
    if not plan.verbatim or is_folded(step):
        return one_line(step, limit)
    return json_line(step if len(step) <= limit else step[: limit - 1] + "…")


def _signs(plan: PlanSnapshot) -> str:
    return " ".join(f"{marker(status)}{n}" for n, status in enumerate(plan.statuses, 1))
