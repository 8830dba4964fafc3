"""Blocks of plans: snapshots, acknowledged steps and the skeletons that remain after compaction."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks.block import Block, BlockError, need_positive, need_text
from timeloom.core.ids import PlanId, TurnId
from timeloom.core.plans.changes import PlanChange
from timeloom.core.plans.snapshot import PlanSnapshot


class PlanRecorded(Block, tag="react.plan", frozen=True, kw_only=True):
    """A plan's state after a change; `new`, `replace` and `activate` make an open plan the current one."""

    type_name: ClassVar[str] = "react.plan"
    fixed_mime: ClassVar[str] = "application/json"
    snapshot: PlanSnapshot
    change: PlanChange = "new"

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.react.plan.{self.snapshot.plan_id}"

    def alias(self, turn: TurnId) -> str:
        return f"ar:plan.latest:{self.snapshot.plan_id}"


class PlanAcknowledged(Block, tag="react.plan.ack", frozen=True, kw_only=True):
    """The step marks in a round's notes, as the model wrote them."""

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
    """Snapshot of a plan that outlives compaction, and the path at which to read it."""

    snapshot: PlanSnapshot
    snapshot_ref: str


class PlansCompacted(Block, tag="react.plan.history", frozen=True, kw_only=True):
    """The plans of a compacted range: their steps, statuses and paths."""

    type_name: ClassVar[str] = "react.plan.history"
    fixed_mime: ClassVar[str] = "application/json"
    plans: tuple[PlanSkeleton, ...]
    author: str = "runtime"

    def __post_init__(self) -> None:
        if not self.plans:
            raise BlockError("a plan history names at least one plan, got none")
