"""A change of a plan: its kind, when it happened and the snapshot that it leaves."""

from typing import Literal

import msgspec

from timeloom.core.ids import IdError, TurnId, turn_id
from timeloom.core.plans.snapshot import PlanError, PlanSnapshot

PlanMode = Literal["new", "replace", "activate", "close"]
"""The four ways a plan's life changes."""

PlanChange = Literal[PlanMode, "progress"]
"""What made a snapshot: one of the four modes, or steps that were acknowledged."""


class Moment(msgspec.Struct, frozen=True):
    """The turn and the time at which a plan is changed."""

    turn_id: TurnId
    ts: str

    def __post_init__(self) -> None:
        try:
            turn_id(self.turn_id)
        except IdError as error:
            raise PlanError("plan_malformed", f"a plan is changed in a turn: {error}") from error
        # Being closed or superseded is having a time for it: an empty one would leave the plan open.
        if not self.ts:
            raise PlanError("plan_malformed", "a plan is changed at a time, got none")


class Changed(msgspec.Struct, frozen=True):
    """A plan as a change leaves it, ready to be recorded."""

    snapshot: PlanSnapshot
    change: PlanChange
