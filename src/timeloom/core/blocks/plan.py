"""Blocks of plans: snapshots, acknowledged steps and what is left of plans in compacted history."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks.block import Block, BlockError, need_positive, need_text
from timeloom.core.ids import PlanId, TurnId
from timeloom.core.plans.changes import PlanChange
from timeloom.core.plans.snapshot import PlanSnapshot


class PlanRecorded(Block, tag="react.plan", frozen=True, kw_only=True):
    """A plan as it stands after a change; after `new`, `replace` and `activate` an open plan is the current one."""

    type_name: ClassVar[str] = "react.plan"
    fixed_mime: ClassVar[str] = "application/json"
    snapshot: PlanSnapshot
    change: PlanChange = "new"

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.react.plan.{self.snapshot.plan_id}"

    def alias(self, turn: TurnId) -> str:
        return f"ar:plan.latest:{self.snapshot.plan_id}"


class PlanAcknowledged(Block, tag="react.plan.ack", frozen=True, kw_only=True):
    """The step marks that a round's notes carried, as they were written."""

    type_name: ClassVar[str] = "react.plan.ack"
    round: int
    text: str
    plan_id: PlanId | None = None

    def __post_init__(self) -> None:
        need_positive(self.round, "round")
        need_text(self.text, "text")

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.react.plan.ack.{self.round}"


class PlanSkeleton(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What stays of a plan when its history is compacted, and the path where its last snapshot is read."""

    snapshot: PlanSnapshot
    snapshot_ref: str


class PlansCompacted(Block, tag="react.plan.history", frozen=True, kw_only=True):
    """The plans of a compacted range: steps, statuses and where to read them."""

    type_name: ClassVar[str] = "react.plan.history"
    fixed_mime: ClassVar[str] = "application/json"
    plans: tuple[PlanSkeleton, ...]
    author: str = "runtime"

    def __post_init__(self) -> None:
        if not self.plans:
            raise BlockError("a plan history names at least one plan, got none")
