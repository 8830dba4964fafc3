"""The four ways a plan's life changes, each decided from plain values."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.blocks import PlanRecorded
from timeloom.core.ids import PlanId, TurnId, make_plan_id
from timeloom.core.plans.changes import Moment, PlanRevision
from timeloom.core.plans.lifecycle import (
    ActivatePlan,
    ClosePlan,
    NewPlan,
    PlanCommand,
    ReplacePlan,
    apply_plan_command,
    parse_plan_command,
)
from timeloom.core.plans.snapshot import PlanError
from timeloom.core.timeline import Entry
from timeloom.core.view.plans import PlansView

TURN = TurnId("turn_1770603271112_2yz1lp")
LATER = TurnId("turn_1770603279999_aaaaaa")
A, B, C, D = (PlanId(f"plan_{name}") for name in ("alpha", "beta", "gamma", "delta"))
STEPS = ("collect metrics", "compare trends", "draft answer")


def at(second: int, turn: TurnId = TURN) -> Moment:
    return Moment(turn, f"2026-02-09T02:14:{second:02}Z")


def record(view: PlansView, changes: Sequence[PlanRevision]) -> None:
    for changed in changes:
        block = PlanRecorded(snapshot=changed.snapshot, change=changed.change)
        seq = max((line.seq for line in view.lineages.values()), default=0) + 1
        view.add(Entry(seq=seq, turn_id=TURN, ts=at(0).ts, block=block))


def view_of(*orders: tuple[PlanCommand, PlanId]) -> PlansView:
    view = PlansView()
    for second, (order, fresh_id) in enumerate(orders, 1):
        record(view, apply_plan_command(order, view, at(second), fresh_id))
    return view


def code_of(order: PlanCommand, view: PlansView, fresh_id: PlanId = D) -> str:
    with pytest.raises(PlanError) as refused:
        apply_plan_command(order, view, at(59), fresh_id)
    return refused.value.code


@pytest.mark.parametrize(
    ("mode", "steps", "plan_id", "order"),
    [
        ("new", ["a", "b"], "", NewPlan(("a", "b"))),
        ("new", [" a\n  b\u2028c "], "", NewPlan((" a\n  b\u2028c ",))),
        ("replace", ["a"], "", ReplacePlan(("a",))),
        ("replace", ["a"], "plan_alpha", ReplacePlan(("a",), A)),
        ("activate", [], "plan_alpha", ActivatePlan(A)),
        ("close", [], "", ClosePlan()),
        ("close", [], "plan_alpha", ClosePlan(A)),
    ],
)
def test_an_order_is_read_from_its_words(mode: str, steps: list[str], plan_id: str, order: PlanCommand) -> None:
    assert parse_plan_command(mode, steps, plan_id) == order


@pytest.mark.parametrize(
    ("mode", "steps", "plan_id", "message"),
    [
        ("new", [], "", "'new' takes steps"),
        ("new", ["a"], "plan_alpha", "no plan_id"),
        ("replace", [], "plan_alpha", "'replace' takes the steps"),
        ("activate", [], "", "'activate' takes the plan_id"),
        ("activate", ["a"], "plan_alpha", "no steps"),
        ("close", ["a"], "", "'close' takes"),
        ("update", ["a"], "", "mode is 'new', 'replace', 'activate' or 'close'; got 'update' with 1 steps"),
        ("", [], "", "mode is"),
    ],
)
def test_words_that_give_no_order_are_refused_with_what_is_expected(
    mode: str, steps: list[str], plan_id: str, message: str
) -> None:
    with pytest.raises(PlanError, match=message) as refused:
        parse_plan_command(mode, steps, plan_id)
    assert refused.value.code == "plan_malformed"


@pytest.mark.parametrize(
    ("steps", "got"), [(["a", 5], "int"), ([None], "NoneType"), ([["a"]], "list"), ("abc", "one text"), (b"abc", "int")]
)
@pytest.mark.parametrize("mode", ["new", "replace", "close", "other"])
def test_steps_that_are_no_list_of_texts_are_refused(mode: str, steps: Sequence[object], got: str) -> None:
    with pytest.raises(PlanError, match=f"a step is a text.*got .*{got}") as refused:
        parse_plan_command(mode, steps)
    assert refused.value.code == "plan_malformed"


def test_a_new_plan_starts_with_every_step_pending() -> None:
    (changed,) = apply_plan_command(NewPlan(STEPS), PlansView(), at(7), A)
    plan = changed.snapshot
    assert changed.change == "new"
    assert (plan.plan_id, plan.steps, plan.statuses) == (A, STEPS, ("pending",) * 3)
    assert (plan.created_ts, plan.last_ts) == (at(7).ts, at(7).ts)
    assert (plan.origin_turn_id, plan.last_turn_id, plan.state) == (TURN, TURN, "open")


def test_a_step_keeps_all_its_characters() -> None:
    (changed,) = apply_plan_command(NewPlan(("a\u2028b\tc", "d")), PlansView(), at(7), A)
    assert changed.snapshot.steps == ("a\u2028b\tc", "d")
    assert changed.snapshot.verbatim
    (plain,) = apply_plan_command(NewPlan(("a b", "d")), PlansView(), at(7), A)
    assert not plain.snapshot.verbatim


def test_a_new_plan_becomes_current_and_leaves_the_older_one_open() -> None:
    view = view_of((NewPlan(STEPS), A), (NewPlan(("x",)), B))
    assert view.current == B
    assert list(view.open_seqs) == [A, B]


def test_a_new_plan_needs_an_id_that_is_not_taken() -> None:
    assert code_of(NewPlan(STEPS), view_of((NewPlan(STEPS), A)), A) == "plan_malformed"
    assert code_of(ReplacePlan(STEPS), view_of((NewPlan(STEPS), A)), A) == "plan_malformed"


def test_a_plan_with_a_step_that_says_nothing_is_refused() -> None:
    assert code_of(parse_plan_command("new", ["a", " \n "]), PlansView()) == "plan_malformed"


def test_replacing_retires_the_old_plan_first_and_opens_a_lineage_of_its_own() -> None:
    view = view_of((NewPlan(STEPS), A))
    old, new = apply_plan_command(ReplacePlan(("x",)), view, at(9, LATER), B)
    assert (old.change, new.change) == ("replace", "replace")
    assert (old.snapshot.plan_id, old.snapshot.state, old.snapshot.superseded_ts) == (A, "superseded", at(9).ts)
    assert (old.snapshot.origin_turn_id, old.snapshot.last_turn_id) == (TURN, LATER)
    assert (new.snapshot.plan_id, new.snapshot.steps, new.snapshot.origin_turn_id) == (B, ("x",), LATER)
    record(view, (old, new))
    assert view.current == B
    assert list(view.open_seqs) == [B]


def test_a_plan_that_is_not_current_can_be_replaced_by_name() -> None:
    view = view_of((NewPlan(STEPS), A), (NewPlan(STEPS), B), (ReplacePlan(STEPS, A), C))
    assert view.current == C
    assert list(view.open_seqs) == [B, C]


def test_activating_takes_up_an_older_plan_under_its_own_id() -> None:
    view = view_of((NewPlan(STEPS), A), (NewPlan(STEPS), B))
    (changed,) = apply_plan_command(ActivatePlan(A), view, at(9, LATER), D)
    assert (changed.change, changed.snapshot.plan_id, changed.snapshot.last_turn_id) == ("activate", A, LATER)
    record(view, (changed,))
    assert view.current == A
    assert list(view.open_seqs) == [B, A]
    assert D not in view.lineages


def test_activating_the_current_plan_changes_nothing() -> None:
    assert apply_plan_command(ActivatePlan(A), view_of((NewPlan(STEPS), A)), at(9), D) == ()


def test_closing_ends_the_current_plan_and_makes_no_other_current() -> None:
    view = view_of((NewPlan(STEPS), A), (NewPlan(STEPS), B), (ClosePlan(), D))
    assert view.state(B) == "closed"
    assert view.current is None
    assert list(view.open_seqs) == [A]
    closed = view.latest(B)
    assert closed is not None
    assert (closed.closed_ts, closed.last_ts) == (at(3).ts, at(3).ts)


def test_closing_another_plan_leaves_the_current_one() -> None:
    view = view_of((NewPlan(STEPS), A), (NewPlan(STEPS), B), (ClosePlan(A), D))
    assert view.current == B
    assert view.state(A) == "closed"


@pytest.mark.parametrize("order", [ReplacePlan(STEPS, C), ActivatePlan(C), ClosePlan(C)])
def test_an_unknown_plan_is_refused_with_the_open_ones(order: PlanCommand) -> None:
    view = view_of((NewPlan(STEPS), A), (NewPlan(STEPS), B))
    with pytest.raises(PlanError, match="'plan_gamma'; open: plan_alpha, plan_beta") as refused:
        apply_plan_command(order, view, at(9), D)
    assert refused.value.code == "plan_unknown"


@pytest.mark.parametrize("order", [ReplacePlan(STEPS), ClosePlan()])
def test_without_a_current_plan_one_has_to_be_named(order: PlanCommand) -> None:
    with pytest.raises(PlanError, match=r"no plan is current.*; no plan is open") as refused:
        apply_plan_command(order, PlansView(), at(9), D)
    assert refused.value.code == "plan_unknown"


@pytest.mark.parametrize("order", [ReplacePlan(STEPS, A), ActivatePlan(A), ClosePlan(A)])
@pytest.mark.parametrize("end", [ClosePlan(A), ReplacePlan(STEPS, A)])
def test_a_plan_that_ended_is_refused(order: PlanCommand, end: PlanCommand) -> None:
    view = view_of((NewPlan(STEPS), A), (end, B))
    assert code_of(order, view) == "plan_not_open"


def test_a_refusal_never_repeats_an_endless_id() -> None:
    with pytest.raises(PlanError) as refused:
        apply_plan_command(ActivatePlan(PlanId("x" * 1_000_000)), PlansView(), at(9), D)
    assert len(str(refused.value)) < 200


MODES = st.sampled_from(["new", "replace", "activate", "close", "other"])
IDS = st.integers(0, 6).map(lambda n: "" if n == 6 else make_plan_id(TURN, n))


@given(st.lists(st.tuples(MODES, st.lists(st.text(max_size=5), max_size=2), IDS), max_size=20))
def test_any_orders_in_a_row_leave_at_most_one_current_plan_and_it_is_open(
    words: list[tuple[str, list[str], str]],
) -> None:
    view = PlansView()
    for n, (mode, steps, plan_id) in enumerate(words):
        before = (view.current, dict(view.open_seqs))
        try:
            changes = apply_plan_command(parse_plan_command(mode, steps, plan_id), view, at(n), make_plan_id(TURN, n))
        except PlanError:
            continue
        record(view, changes)
        assert view.current is None or view.state(view.current) == "open"
        assert len(changes) == (2 if mode == "replace" else 1) or (mode == "activate" and before[0] == plan_id)
        assert len(view.open_seqs) - len(before[1]) == {"new": 1, "replace": 0, "activate": 0, "close": -1}[mode]
