"""Plans: every lineage with its newest snapshot, which are open, and the one that is current."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import PlanRecorded, PlansCompacted, PlanSkeleton
from timeloom.core.ids import PlanId
from timeloom.core.paths import LatestPlanPath
from timeloom.core.plans.snapshot import PlanSnapshot, PlanState
from timeloom.core.timeline import Entry

MAX_ANNOUNCED: Final = 4
"""Most open plans that a round is shown. Fewer hides what could be taken up again; more crowds the uncached tail."""

MAX_SKELETONS: Final = 20
"""Most plans that one compacted history lists. Fewer forgets plans that are still wanted; without a bound each
compaction would repeat all plans there ever were."""


class Lineage(msgspec.Struct, frozen=True):
    """A plan's newest snapshot, the entry that holds it, and the last entry that shows the plan."""

    snapshot: PlanSnapshot
    seq: int
    shown_seq: int


class PlansView(msgspec.Struct):
    """All lineages and the open ones among them, both ordered by their last change; the current plan is always open."""

    lineages: dict[PlanId, Lineage] = {}
    open_seqs: dict[PlanId, int] = {}
    current: PlanId | None = None

    def add(self, entry: Entry) -> None:
        """Takes in the next entry; only snapshots change how plans stand."""
        match entry.block:
            case PlanRecorded(snapshot=snapshot, change=change):
                self._record(snapshot, entry.seq)
                self._turn_to(snapshot, takes_over=change in ("new", "replace", "activate"))
            case PlansCompacted(plans=plans):
                for skeleton in plans:
                    self._show(skeleton.snapshot.plan_id, entry.seq)
            case _:
                pass

    def latest(self, plan_id: PlanId) -> PlanSnapshot | None:
        """The newest snapshot of that plan."""
        lineage = self.lineages.get(plan_id)
        return lineage.snapshot if lineage else None

    def latest_seq(self, plan_id: PlanId) -> int | None:
        """The entry that `ar:plan.latest:<id>` means."""
        lineage = self.lineages.get(plan_id)
        return lineage.seq if lineage else None

    def state(self, plan_id: PlanId) -> PlanState | None:
        """How that plan stands; nothing for an unknown one."""
        snapshot = self.latest(plan_id)
        return snapshot.state if snapshot else None

    def last_open(self, limit: int) -> Sequence[PlanSnapshot]:
        """The open plans that changed last, the newest at the end."""
        newest_first = islice(reversed(self.open_seqs), limit)
        return tuple(self.lineages[plan_id].snapshot for plan_id in newest_first)[::-1]

    def _record(self, snapshot: PlanSnapshot, seq: int) -> None:
        plan_id = snapshot.plan_id
        # Taken out first, because a key that stays keeps its old place in the order.
        self.lineages.pop(plan_id, None)
        self.open_seqs.pop(plan_id, None)
        self.lineages[plan_id] = Lineage(snapshot, seq, shown_seq=seq)
        if snapshot.state == "open":
            self.open_seqs[plan_id] = seq

    def _turn_to(self, snapshot: PlanSnapshot, *, takes_over: bool) -> None:
        if snapshot.state != "open":
            if self.current == snapshot.plan_id:
                self.current = None
        elif takes_over:
            self.current = snapshot.plan_id

    def _show(self, plan_id: PlanId, seq: int) -> None:
        lineage = self.lineages.get(plan_id)
        if lineage:
            self.lineages[plan_id] = replace(lineage, shown_seq=seq)


def carried_over(view: PlansView) -> PlanSnapshot | None:
    """The plan that a new turn takes up: the current one and no other."""
    return None if view.current is None else view.latest(view.current)


def announced(view: PlansView) -> tuple[PlanSnapshot, ...]:
    """The open plans that a round is shown, the last changed at the end; the current one is always among them."""
    shown = tuple(view.last_open(MAX_ANNOUNCED))
    current = carried_over(view)
    if current is None or current in shown:
        return shown
    return (current, *shown[1:])


def skeletons(view: PlansView, first_seq: int, last_seq: int) -> tuple[PlanSkeleton, ...]:
    """What stays of the plans that a compaction of these entries takes out of sight, the last changed at the end.

    A plan counts where the last entry that shows it is among them: its newest snapshot, or an older history that
    listed it and goes too. Of more than `MAX_SKELETONS` the ones that changed last are kept.
    """
    covered = (line for line in reversed(view.lineages.values()) if first_seq <= line.shown_seq <= last_seq)
    kept = [_skeleton(line.snapshot) for line in islice(covered, MAX_SKELETONS)]
    return tuple(reversed(kept))


def _skeleton(snapshot: PlanSnapshot) -> PlanSkeleton:
    return PlanSkeleton(snapshot, str(LatestPlanPath(snapshot.plan_id)))
