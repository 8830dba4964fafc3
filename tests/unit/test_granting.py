"""The rule of the ledger: however calls come, cost and die, a scope is overspent by less than one of them."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from timeloom.core.ids import ConversationId
from timeloom.ports.ledger import Amounts, BudgetBusyError, BudgetSpentError, Cap, Most, Reservation
from timeloom.stores.granting import OpenCall, Standing, Total, presumed, refusal

LIMIT = 100
CAP = Cap(scope="tree:a", tokens=LIMIT)


@dataclass
class Flight:
    """A call that was granted: what it said, what it will cost, whether its process lives."""

    said: int | None
    cost: int
    alive: bool = True


@dataclass
class Scope:
    """One scope with its calls, as a ledger keeps it."""

    total: Total = field(default_factory=Total)
    flights: list[Flight] = field(default_factory=list[Flight])
    costs: list[int] = field(default_factory=list[int])

    def ask(self, said: int | None, cost: int) -> BudgetBusyError | BudgetSpentError | None:
        open_calls = [in_flight(each.said, each.alive) for each in self.flights]
        reservation = Reservation(key="k", conversation=ConversationId("c"), most=Most(tokens=said), caps=(CAP,))
        why = refusal(reservation, {CAP.scope: Standing(self.total, open_calls)})
        if not why:
            self.flights.append(Flight(said, cost))
        return why

    def settle(self, at: int) -> None:
        flight = self.flights.pop(at % len(self.flights))
        self.costs.append(flight.cost)
        self.total = self.total.after(Most(tokens=flight.said), Amounts(tokens=flight.cost))


def in_flight(tokens: int | None, alive: bool = True) -> OpenCall:
    return OpenCall(rounds=0, tokens=tokens, cost_nano_usd=0, tool_calls=0, alive=alive)


calls = st.tuples(st.one_of(st.none(), st.integers(1, 60)), st.integers(0, 60))
acts = st.lists(st.tuples(st.sampled_from(["ask", "ask", "settle", "die"]), calls, st.integers(0, 50)), max_size=60)


def played(acts: list[tuple[str, tuple[int | None, int], int]], *, truthful: bool, mortal: bool) -> Scope:
    """What becomes of a scope; in the end everything is settled."""
    scope = Scope()
    for act, (said, cost), at in acts:
        if act == "ask":
            # Of a truthful call the cost is at most what it said, and anything where it did not say.
            true_cost = min(cost, said) if truthful and said is not None else cost
            spent, alive = scope.total.tokens, [each for each in scope.flights if each.alive]
            why = scope.ask(said, true_cost)
            assert isinstance(why, BudgetSpentError) == (spent >= LIMIT)
            lost = sum(each.said or 0 for each in scope.flights if not each.alive)
            if not alive and spent + lost + (scope.total.largest_tokens or 0) * len(scope.flights) < LIMIT:
                assert why is None, "who is alone and has something left is let through"
        elif scope.flights and act == "settle":
            scope.settle(at)
        elif scope.flights and mortal:
            flight = scope.flights[at % len(scope.flights)]
            # One that did not say what it may cost cannot be promised for.
            flight.alive = flight.said is None
    while scope.flights:
        scope.settle(0)
    return scope


@given(acts)
def test_truthful_calls_overspend_by_less_than_one_of_them(
    acts: list[tuple[str, tuple[int | None, int], int]],
) -> None:
    scope = played(acts, truthful=True, mortal=True)
    overspent = scope.total.tokens - LIMIT
    assert overspent < max(scope.costs, default=1)


@given(acts)
def test_calls_that_lie_overspend_by_one_of_them_and_by_what_they_kept_back(
    acts: list[tuple[str, tuple[int | None, int], int]],
) -> None:
    scope = Scope()
    kept_back = 0
    for act, (said, cost), at in acts:
        largest = scope.total.largest_tokens or 0
        if act == "ask":
            if not scope.ask(said, cost) and said is not None:
                kept_back += max(0, cost - max(said, largest))
        elif scope.flights:
            scope.settle(at)
    while scope.flights:
        scope.settle(0)
    assert scope.total.tokens - LIMIT < max(scope.costs, default=1) + kept_back


def test_nothing_left_for_good_is_said_before_nothing_left_now() -> None:
    most = Most(tokens=5, rounds=1)
    caps = (Cap(scope="tree:a", tokens=9), Cap(scope="user:b", rounds=0))
    reservation = Reservation(key="k", conversation=ConversationId("c"), most=most, caps=caps)
    busy = Standing(open=[in_flight(5)])
    why = refusal(reservation, {"tree:a": busy, "user:b": Standing()})
    assert isinstance(why, BudgetSpentError)
    assert (why.scope, why.measure) == ("user:b", "rounds")


def test_a_lost_call_of_unknown_cost_counts_as_the_largest_before_it() -> None:
    reservation = Reservation(key="k", conversation=ConversationId("c"), most=Most(tokens=1), caps=(CAP,))
    lost = [in_flight(None, alive=False)]
    assert refusal(reservation, {CAP.scope: Standing(Total(tokens=50, largest_tokens=49), lost)}) is None
    why = refusal(reservation, {CAP.scope: Standing(Total(tokens=50, largest_tokens=50), lost)})
    assert isinstance(why, BudgetBusyError)


def test_a_lost_call_counts_as_the_largest_where_it_said_less_and_not_at_all_where_it_took_nothing() -> None:
    reservation = Reservation(key="k", conversation=ConversationId("c"), most=Most(tokens=1), caps=(CAP,))
    total = Total(tokens=50, largest_tokens=50)
    assert refusal(reservation, {CAP.scope: Standing(total, [in_flight(0, alive=False)])}) is None
    assert refusal(reservation, {CAP.scope: Standing(total, [in_flight(1, alive=False)])})


def test_what_cannot_be_settled_is_charged_as_far_as_it_is_known() -> None:
    most = Most(rounds=1, tokens=None, cost_nano_usd=5, tool_calls=2)
    assert presumed(most) == Amounts(rounds=1, cost_nano_usd=5, tool_calls=2)
