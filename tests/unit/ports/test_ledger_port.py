"""Scopes and reservations: names that cannot be mistaken, amounts that can be counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.ids import ConversationId
from timeloom.core.policy.budget import Scope
from timeloom.ports.ledger import MAX_AMOUNT, Amounts, BudgetCap, LedgerError, MaxAmounts, Reservation, scope

names = st.one_of(st.text(max_size=20), st.sampled_from(["a/b", "a", "#", "x" * 1000, "ü" * 400, "\ud800", "a%2Fb"]))


@given(st.tuples(names, names), st.tuples(names, names), st.sampled_from(["user", "project"]))
def test_scopes_are_equal_only_where_their_names_are(
    left: tuple[str, str], right: tuple[str, str], kind: Scope
) -> None:
    assert (scope(kind, *left) == scope(kind, *right)) == (left == right)
    assert scope("turn", *left) != scope(kind, *left)
    assert scope(kind, *left).isascii()


@given(st.tuples(names, names))
def test_every_scope_can_be_reserved_in(pair: tuple[str, str]) -> None:
    caps = tuple(BudgetCap(scope=scope(kind, *pair)) for kind in ("turn", "user", "project"))
    Reservation(key="k", conversation=ConversationId("c"), most=MaxAmounts(), caps=caps)


def test_a_scope_reads_as_what_it_is() -> None:
    assert scope("turn", "conv_1", "turn_1") == "turn:conv_1/turn_1"
    assert scope("tree", "conv_1") == "tree:conv_1"
    assert scope("user", "home", "ann/lee") == "user:home/ann%2Flee"


@pytest.mark.parametrize(("kind", "given"), [("turn", ["a"]), ("tree", ["a", "b"]), ("project", []), ("user", ["a"])])
def test_a_scope_has_as_many_names_as_its_kind(kind: Scope, given: list[str]) -> None:
    with pytest.raises(LedgerError, match=kind):
        scope(kind, *given)


@pytest.mark.parametrize("amount", [-1, MAX_AMOUNT + 1])
def test_amounts_out_of_range_are_refused(amount: int) -> None:
    for make in (
        lambda: Amounts(tokens=amount),
        lambda: Amounts(wall_ms=amount),
        lambda: MaxAmounts(cost_nano_usd=amount),
        lambda: BudgetCap(scope="tree:a", rounds=amount),
    ):
        with pytest.raises(LedgerError, match=str(amount)):
            make()


@pytest.mark.parametrize(
    ("key", "scopes"),
    [("", ["tree:a"]), ("k" * 501, ["tree:a"]), ("é", ["tree:a"]), ("k", [""]), ("k", ["é"]), ("k", ["a" * 600])],
)
def test_a_reservation_that_could_not_be_stored_is_refused(key: str, scopes: list[str]) -> None:
    caps = tuple(BudgetCap(scope=each) for each in scopes)
    with pytest.raises(LedgerError, match="ASCII"):
        Reservation(key=key, conversation=ConversationId("c"), most=MaxAmounts(), caps=caps)


def test_a_reservation_names_each_scope_once() -> None:
    with pytest.raises(LedgerError, match="twice"):
        Reservation(
            key="k",
            conversation=ConversationId("c"),
            most=MaxAmounts(),
            caps=(BudgetCap(scope="tree:a"), BudgetCap(scope="tree:a", tokens=1)),
        )
