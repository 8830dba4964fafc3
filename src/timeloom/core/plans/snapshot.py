"""State of a plan at one time: its steps, their statuses and whether it is open."""

from typing import Final, Literal, get_args

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.ids import IdError, PlanId, TurnId, parse_plan_id

StepStatus = Literal["pending", "in_progress", "done", "failed"]
PlanState = Literal["open", "complete", "closed", "superseded"]

MAX_STEPS = 50
"""Most steps of one plan. More would crowd the prompt's tail, which shows open plans in every round."""

MAX_STEP_CHARS = 500
"""Longest text of one step; a step is a line of a checklist, not a document."""

_STATUSES: Final = frozenset(get_args(StepStatus))


class PlanError(CodedError):
    """Error for a refused plan or plan command; the message names the received and the expected value."""


def is_folded(step: str) -> bool:
    """Return whether all white space in the step is single spaces between words."""
    return " ".join(step.split()) == step


class PlanSnapshot(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """State of a plan when the snapshot was taken; `statuses[i]` belongs to `steps[i]`."""

    plan_id: PlanId
    steps: tuple[str, ...]
    statuses: tuple[StepStatus, ...]
    created_ts: str = ""
    last_ts: str = ""
    origin_turn_id: TurnId | None = None
    last_turn_id: TurnId | None = None
    closed_ts: str = ""
    superseded_ts: str = ""
    verbatim: bool = False
    """Whether the steps have line breaks or other white space than single spaces, which prompts then show escaped.
    Older snapshots have their white space folded."""

    def __post_init__(self) -> None:
        try:
            parse_plan_id(self.plan_id)
        except IdError as error:
            raise PlanError("plan_malformed", str(error)) from error
        if not 1 <= len(self.steps) <= MAX_STEPS:
            raise PlanError("plan_malformed", f"a plan has 1 to {MAX_STEPS} steps, got {len(self.steps)}")
        if len(self.statuses) != len(self.steps):
            raise PlanError("plan_malformed", f"{len(self.steps)} statuses expected, got {len(self.statuses)}")
        for n, (step, status) in enumerate(zip(self.steps, self.statuses, strict=True), 1):
            # All line breaks of `splitlines` count, so that no step can start a new line in a prompt.
            is_line = self.verbatim or step.splitlines() == [step]
            if not step.strip() or len(step) > MAX_STEP_CHARS or not is_line:
                raise PlanError("plan_malformed", f"step {n} is one line of 1 to {MAX_STEP_CHARS} characters")
            if status not in _STATUSES:
                raise PlanError("plan_malformed", f"step {n} is one of {sorted(_STATUSES)}, got {status[:40]!r}")

    @property
    def state(self) -> PlanState:
        """`superseded`, `closed`, `complete` (every step done or failed), or else `open`."""
        if self.superseded_ts:
            return "superseded"
        if self.closed_ts:
            return "closed"
        if all(status in ("done", "failed") for status in self.statuses):
            return "complete"
        return "open"
