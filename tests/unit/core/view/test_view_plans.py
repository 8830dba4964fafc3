"""The plans view: folding entry by entry equals evaluating the whole timeline."""

from collections.abc import Iterable
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import (
    AnyBlock,
    PlanAcknowledged,
    PlanRecorded,
    PlansCompacted,
    PlanSkeleton,
    TurnEnded,
    TurnStarted,
    Unknown,
    UserPrompt,
)
from timeloom.core.ids import PlanId, TurnId
from timeloom.core.paths import LatestPlanPath, parse
from timeloom.core.plans.changes import PlanChange
from timeloom.core.plans.snapshot import PlanSnapshot, PlanState, StepStatus
from timeloom.core.timeline import Entry
from timeloom.core.view.plans import (
    MAX_ANNOUNCED,
    MAX_SKELETONS,
    PlansView,
    find_current_plan,
    make_skeletons,
    plans_to_announce,
)

TURN = TurnId("turn_1770603271112_2yz1lp")
TS = "2026-02-09T02:14:32.676425Z"
A, B, C = (PlanId(f"plan_{name}") for name in ("alpha", "beta", "gamma"))


def plan(plan_id: str, *statuses: StepStatus, closed_ts: str = "", superseded_ts: str = "") -> PlanSnapshot:
    statuses = statuses or ("pending",)
    steps = tuple(f"step {n}" for n in range(len(statuses)))
    return PlanSnapshot(
        plan_id=PlanId(plan_id), steps=steps, statuses=statuses, closed_ts=closed_ts, superseded_ts=superseded_ts
    )


def record(snapshot: PlanSnapshot, change: PlanChange = "new") -> PlanRecorded:
    return PlanRecorded(snapshot=snapshot, change=change)


def history(*plans: PlanSnapshot) -> PlansCompacted:
    return PlansCompacted(plans=tuple(PlanSkeleton(one, f"ar:plan.latest:{one.plan_id}") for one in plans))


def entries(blocks: Iterable[AnyBlock]) -> list[Entry]:
    return [Entry(seq=seq, turn_id=TURN, ts=TS, block=block) for seq, block in enumerate(blocks, 1)]


def view_of(*blocks: AnyBlock) -> PlansView:
    view = PlansView()
    for entry in entries(blocks):
        view.add(entry)
    return view


def ids(snapshots: Iterable[PlanSnapshot]) -> list[str]:
    return [snapshot.plan_id for snapshot in snapshots]


def test_an_empty_timeline_has_no_plans() -> None:
    view = PlansView()
    assert view.current is None
    assert find_current_plan(view) is None
    assert plans_to_announce(view) == ()
    assert make_skeletons(view, 1, 100) == ()


def test_the_latest_alias_means_the_newest_snapshot_of_its_lineage() -> None:
    view = view_of(record(plan(A)), record(plan(B)), record(plan(A, "in_progress"), "progress"))
    assert (view.latest_seq(A), view.latest_seq(B), view.latest_seq(C)) == (3, 2, None)
    assert view.latest(A) == plan(A, "in_progress")
    assert view.latest(C) is None


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (plan(A, "pending"), "open"),
        (plan(A, "done"), "complete"),
        (plan(A, closed_ts=TS), "closed"),
        (plan(A, superseded_ts=TS), "superseded"),
    ],
)
def test_the_newest_snapshot_says_how_a_plan_stands(last: PlanSnapshot, state: PlanState) -> None:
    view = view_of(record(plan(A)), record(last, "progress"))
    assert view.state(A) == state
    assert view.current == (A if state == "open" else None)
    assert view.state(C) is None


@pytest.mark.parametrize("change", ["new", "replace", "activate"])
def test_new_replace_and_activate_make_an_open_plan_current(change: PlanChange) -> None:
    assert view_of(record(plan(A)), record(plan(B), change)).current == B


@pytest.mark.parametrize("change", ["progress", "close"])
def test_no_other_change_does(change: PlanChange) -> None:
    assert view_of(record(plan(A)), record(plan(B), change)).current == A


@pytest.mark.parametrize("change", get_args(PlanChange))
def test_a_plan_that_is_not_open_never_becomes_current(change: PlanChange) -> None:
    assert view_of(record(plan(A)), record(plan(B, "done"), change)).current == A


@pytest.mark.parametrize("end", [plan(A, "done"), plan(A, closed_ts=TS), plan(A, superseded_ts=TS)])
def test_progress_after_its_end_does_not_make_a_plan_current_again(end: PlanSnapshot) -> None:
    view = view_of(record(plan(A)), record(end, "close"), record(plan(A, "in_progress"), "progress"))
    assert view.current is None


def test_the_end_of_another_plan_leaves_the_current_one() -> None:
    assert view_of(record(plan(A)), record(plan(B)), record(plan(A, closed_ts=TS), "close")).current == B


def test_a_new_turn_takes_up_only_the_current_open_plan() -> None:
    blocks = [record(plan(A)), record(plan(B, "done", "pending"))]
    view = view_of(*blocks, TurnEnded(reason="completed"), TurnStarted(n=2))
    assert find_current_plan(view) == plan(B, "done", "pending")


def test_a_new_turn_after_the_end_of_the_current_plan_takes_up_none() -> None:
    view = view_of(record(plan(A)), record(plan(B)), record(plan(B, "done"), "progress"), TurnStarted(n=2))
    assert find_current_plan(view) is None
    assert ids(plans_to_announce(view)) == [A]


def test_a_round_is_shown_the_last_four_open_plans() -> None:
    blocks = [record(plan(f"plan_{n}")) for n in range(6)]
    view = view_of(*blocks, record(plan("plan_4", closed_ts=TS), "close"), record(plan("plan_0"), "activate"))
    assert ids(plans_to_announce(view)) == ["plan_2", "plan_3", "plan_5", "plan_0"]
    assert view.current == "plan_0"


def test_the_current_plan_is_shown_even_where_foreign_progress_pushed_it_back() -> None:
    others = [record(plan(f"plan_{n}"), "progress") for n in range(MAX_ANNOUNCED)]
    shown = plans_to_announce(view_of(record(plan(A)), *others))
    assert ids(shown) == [A, "plan_1", "plan_2", "plan_3"]


def test_a_compacted_plan_stays_with_its_steps_statuses_and_a_path_that_resolves() -> None:
    view = view_of(record(plan(A, "done", "pending")), record(plan(B, closed_ts=TS)), UserPrompt(text="go on"))
    assert make_skeletons(view, 1, 3) == (
        PlanSkeleton(plan(A, "done", "pending"), "ar:plan.latest:plan_alpha"),
        PlanSkeleton(plan(B, closed_ts=TS), "ar:plan.latest:plan_beta"),
    )
    assert parse(make_skeletons(view, 1, 1)[0].snapshot_ref) == LatestPlanPath(A)


def test_a_plan_that_is_still_shown_after_the_range_leaves_no_skeleton() -> None:
    view = view_of(record(plan(A)), record(plan(B)), record(plan(A, "in_progress"), "progress"))
    assert ids(one.snapshot for one in make_skeletons(view, 1, 2)) == [B]


def test_a_history_that_is_compacted_itself_hands_its_plans_on() -> None:
    view = view_of(record(plan(A)), record(plan(B)), UserPrompt(text="x"), history(plan(A)), record(plan(C)))
    assert ids(one.snapshot for one in make_skeletons(view, 1, 3)) == [B]
    assert ids(one.snapshot for one in make_skeletons(view, 3, 5)) == [A, C]


def test_of_very_many_plans_a_history_keeps_the_last_changed() -> None:
    view = view_of(*(record(plan(f"plan_{n}")) for n in range(MAX_SKELETONS + 5)))
    assert ids(one.snapshot for one in make_skeletons(view, 1, 1000)) == [
        f"plan_{n}" for n in range(5, MAX_SKELETONS + 5)
    ]


def test_a_history_changes_nothing_about_the_plans_it_lists() -> None:
    view = view_of(record(plan(A)), history(plan(A, "done"), plan(B)))
    assert (view.current, view.state(A), view.latest_seq(A)) == (A, "open", 1)
    assert view.state(B) is None


PLAN_IDS = st.sampled_from([A, B, C, "plan:turn_1_a:00ff", "0", "plan_5", "plan_6"])
ENDINGS = st.sampled_from(["", "", "", TS])


@st.composite
def snapshots(draw: st.DrawFn) -> PlanSnapshot:
    statuses = draw(st.lists(st.sampled_from(get_args(StepStatus)), min_size=1, max_size=3))
    return plan(draw(PLAN_IDS), *statuses, closed_ts=draw(ENDINGS), superseded_ts=draw(ENDINGS))


RECORDS = st.builds(record, snapshots(), st.sampled_from(get_args(PlanChange)))
BLOCKS: st.SearchStrategy[AnyBlock] = st.one_of(
    RECORDS,
    RECORDS,
    st.lists(snapshots(), min_size=1, max_size=3).map(lambda plans: history(*plans)),
    st.builds(PlanAcknowledged, round=st.integers(1, 9), text=st.just("✓ [1]"), plan_id=st.none() | st.just(A)),
    st.builds(TurnStarted, n=st.integers(1, 9)),
    st.just(Unknown(json='{"type": "react.plan", "text": 1}', foreign_type="react.plan")),
)
TIMELINES = st.lists(BLOCKS, max_size=40).map(entries)


def recorded(timeline: list[Entry]) -> list[tuple[int, PlanSnapshot, PlanChange]]:
    """Every snapshot of the timeline with its place and its change."""
    return [(e.seq, e.block.snapshot, e.block.change) for e in timeline if isinstance(e.block, PlanRecorded)]


def naive_lineages(timeline: list[Entry]) -> list[tuple[int, PlanSnapshot]]:
    """The newest snapshot of each plan, found from the end."""
    rows = recorded(timeline)
    return [
        (seq, snapshot)
        for at, (seq, snapshot, _) in enumerate(rows)
        if snapshot.plan_id not in {later.plan_id for _, later, _ in rows[at + 1 :]}
    ]


def naive_current(timeline: list[Entry]) -> str | None:
    """The plan that last took over while open, unless it ended since."""
    rows = recorded(timeline)
    taking = [row for row in rows if row[2] in ("new", "replace", "activate") and row[1].state == "open"]
    if not taking:
        return None
    at, taken, _ = taking[-1]
    ended = any(seq > at and later.plan_id == taken.plan_id and later.state != "open" for seq, later, _ in rows)
    return None if ended else taken.plan_id


def naive_skeletons(timeline: list[Entry], first_seq: int, last_seq: int) -> list[PlanSnapshot]:
    """The newest snapshots of the plans that no entry after the range shows and some entry in it does."""
    kept: list[PlanSnapshot] = []
    for newest_seq, snapshot in naive_lineages(timeline):
        listings = [
            entry.seq
            for entry in timeline
            if entry.seq > newest_seq
            and isinstance(entry.block, PlansCompacted)
            and snapshot.plan_id in ids(one.snapshot for one in entry.block.plans)
        ]
        if first_seq <= max([newest_seq, *listings]) <= last_seq:
            kept.append(snapshot)
    return kept


@given(TIMELINES, st.integers(1, 40), st.integers(1, 40))
def test_the_view_equals_what_the_whole_timeline_says(timeline: list[Entry], first_seq: int, last_seq: int) -> None:
    view = PlansView()
    for n, entry in enumerate(timeline, 1):
        view.add(entry)
        lineages = naive_lineages(timeline[:n])
        open_plans = [snapshot for _, snapshot in lineages if snapshot.state == "open"]
        assert [(line.seq, line.snapshot) for line in view.lineages.values()] == lineages
        assert list(view.last_open(100)) == open_plans
        assert list(view.open_seqs.values()) == [seq for seq, snapshot in lineages if snapshot.state == "open"]
        assert view.current == naive_current(timeline[:n])
        assert [one.snapshot for one in make_skeletons(view, first_seq, last_seq)] == naive_skeletons(
            timeline[:n], first_seq, last_seq
        )


@given(TIMELINES)
def test_what_is_announced_is_open_bounded_and_holds_the_current_plan(timeline: list[Entry]) -> None:
    view = view_of(*(entry.block for entry in timeline))
    shown = plans_to_announce(view)
    assert len(set(ids(shown))) == len(shown) == min(MAX_ANNOUNCED, len(view.open_seqs))
    assert all(snapshot.state == "open" for snapshot in shown)
    assert view.current is None or view.current in ids(shown)


@given(TIMELINES, st.integers(0, 40))
def test_a_stored_view_goes_on_as_if_it_had_never_been_stored(timeline: list[Entry], cut: int) -> None:
    whole, first = PlansView(), PlansView()
    for entry in timeline:
        whole.add(entry)
    for entry in timeline[:cut]:
        first.add(entry)
    second = msgspec.msgpack.decode(msgspec.msgpack.encode(first), type=PlansView)
    for entry in timeline[cut:]:
        second.add(entry)
    assert second == whole
    # Equal dicts may be ordered differently; the bytes are not.
    assert msgspec.msgpack.encode(second) == msgspec.msgpack.encode(whole)
