"""Kind, time and resulting snapshot of a change to a plan."""

from typing import Literal

import msgspec

from timeloom.core.ids import IdError, TurnId, parse_turn_id
from timeloom.core.plans.snapshot import PlanError, PlanSnapshot

PlanMode = Literal["new", "replace", "activate", "close"]
"""The four lifecycle changes of a plan."""

PlanChange = Literal[PlanMode, "progress"]
"""Cause of a snapshot: a lifecycle change, or acknowledged steps (`progress`)."""


class Moment(msgspec.Struct, frozen=True):
    """The turn and the time at which a plan changes."""

    turn_id: TurnId
    ts: str

    def __post_init__(self) -> None:
        try:
            parse_turn_id(self.turn_id)
        except IdError as error:
            raise PlanError("plan_malformed", f"a plan is changed in a turn: {error}") from error
        # A closed or superseded plan is one with a time for it, so an empty time would leave the plan open.
        if not self.ts:
            raise PlanError("plan_malformed", "a plan is changed at a time, got none")


class PlanRevision(msgspec.Struct, frozen=True):
    """A plan after a change, ready to be recorded."""

    snapshot: PlanSnapshot
    change: PlanChange
