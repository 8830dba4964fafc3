"""The view of plans: the newest snapshot of each plan, the open plans, and the current plan."""

from collections.abc import Sequence
from itertools import islice
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import PlanRecorded, PlansCompacted, PlanSkeleton
from timeloom.core.ids import PlanId
from timeloom.core.paths import LatestPlanPath
from timeloom.core.plans.snapshot import PlanSnapshot, PlanState
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds

MAX_ANNOUNCED: Final = 4
"""Maximum number of open plans in a prompt. Fewer hide plans that could be resumed; more crowd the uncached tail."""

MAX_SKELETONS: Final = 20
"""Maximum number of plans in one compacted history. Fewer lose plans that are still wanted; without a limit, each
compaction would repeat all plans of the conversation."""


class PlanLineage(msgspec.Struct, frozen=True):
    """The newest snapshot of a plan, its entry, and the last entry that shows the plan."""

    snapshot: PlanSnapshot
    seq: int
    shown_seq: int


class PlansView(BlockView, msgspec.Struct):
    """All plans and the open ones among them, ordered by their last change; the current plan is always open."""

    lineages: dict[PlanId, PlanLineage] = {}
    open_seqs: dict[PlanId, int] = {}
    current: PlanId | None = None

    def latest(self, plan_id: PlanId) -> PlanSnapshot | None:
        """Return the newest snapshot of that plan."""
        lineage = self.lineages.get(plan_id)
        return lineage.snapshot if lineage else None

    def latest_seq(self, plan_id: PlanId) -> int | None:
        """Return the entry that `ar:plan.latest:<id>` names."""
        lineage = self.lineages.get(plan_id)
        return lineage.seq if lineage else None

    def state(self, plan_id: PlanId) -> PlanState | None:
        """Return the state of that plan, or None if it is unknown."""
        snapshot = self.latest(plan_id)
        return snapshot.state if snapshot else None

    def last_open(self, limit: int) -> Sequence[PlanSnapshot]:
        """Return the open plans that changed last, newest last."""
        newest_first = islice(reversed(self.open_seqs), limit)
        return tuple(self.lineages[plan_id].snapshot for plan_id in newest_first)[::-1]

    def _add_plan(self, entry: Entry, block: PlanRecorded) -> None:
        self._record(block.snapshot, entry.seq)
        self._update_current(block.snapshot, takes_over=block.change in ("new", "replace", "activate"))

    def _add_history(self, entry: Entry, block: PlansCompacted) -> None:
        # Only snapshots change the state of a plan.
        for skeleton in block.plans:
            self._show(skeleton.snapshot.plan_id, entry.seq)

    def _record(self, snapshot: PlanSnapshot, seq: int) -> None:
        plan_id = snapshot.plan_id
        # Removed first, because overwriting a key keeps its old position in the dict.
        self.lineages.pop(plan_id, None)
        self.open_seqs.pop(plan_id, None)
        self.lineages[plan_id] = PlanLineage(snapshot, seq, shown_seq=seq)
        if snapshot.state == "open":
            self.open_seqs[plan_id] = seq

    def _update_current(self, snapshot: PlanSnapshot, *, takes_over: bool) -> None:
        if snapshot.state != "open":
            if self.current == snapshot.plan_id:
                self.current = None
        elif takes_over:
            self.current = snapshot.plan_id

    def _show(self, plan_id: PlanId, seq: int) -> None:
        lineage = self.lineages.get(plan_id)
        if lineage:
            self.lineages[plan_id] = replace(lineage, shown_seq=seq)

    folds: ClassVar[Folds] = {PlanRecorded: _add_plan, PlansCompacted: _add_history}


def find_current_plan(view: PlansView) -> PlanSnapshot | None:
    """Return the plan that a new turn resumes: the current plan, if there is one."""
    return None if view.current is None else view.latest(view.current)


def plans_to_announce(view: PlansView) -> tuple[PlanSnapshot, ...]:
    """Return the open plans for a prompt, last changed at the end; the current plan is always included."""
    shown = tuple(view.last_open(MAX_ANNOUNCED))
    current = find_current_plan(view)
    if current is None or current in shown:
        return shown
    return (current, *shown[1:])


def make_skeletons(view: PlansView, first_seq: int, last_seq: int) -> tuple[PlanSkeleton, ...]:
    """Return the plan skeletons that a compaction of these entries keeps, last changed at the end.

    A plan counts if the last entry that shows it is in the range: its newest snapshot, or an older history that listed
    it. Of more than `MAX_SKELETONS` plans, the ones that changed last are kept.
    """
    covered = (line for line in reversed(view.lineages.values()) if first_seq <= line.shown_seq <= last_seq)
    kept = [_skeleton(line.snapshot) for line in islice(covered, MAX_SKELETONS)]
    return tuple(reversed(kept))


def _skeleton(snapshot: PlanSnapshot) -> PlanSkeleton:
    return PlanSkeleton(snapshot, str(LatestPlanPath(snapshot.plan_id)))
