"""The rule by which a ledger grants a reservation, makes it wait or refuses it."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from timeloom.core.policy.budget import MEASURES, Measure
from timeloom.ports.ledger import (
    MAX_AMOUNT,
    Amounts,
    BudgetBusyError,
    BudgetCap,
    BudgetSpentError,
    MaxAmounts,
    Reservation,
)

KNOWN_BEFORE_CALL: Final[tuple[Measure, ...]] = ("rounds", "tool_calls")
"""Measures whose cost is known before a call. A reserved amount counts as spent."""

KNOWN_AFTER_CALL: Final[tuple[Measure, ...]] = ("tokens", "cost_nano_usd", "wall_ms")
"""Measures whose cost is known only after a call.

Several calls may be in flight only if the limit covers all of them together; otherwise one call runs alone."""

_get_all: Final = attrgetter(*MEASURES)
_get_known_after: Final = attrgetter(*KNOWN_AFTER_CALL)
_get_largest: Final = attrgetter(*(f"largest_{measure}" for measure in KNOWN_AFTER_CALL))

Refusal = BudgetSpentError | BudgetBusyError


class ScopeTotal(msgspec.Struct, frozen=True, array_like=True):
    """The settled amounts of a scope and the cost of its largest call, which is None before the first settlement."""

    rounds: int = 0
    tokens: int = 0
    cost_nano_usd: int = 0
    tool_calls: int = 0
    wall_ms: int = 0
    largest_tokens: int | None = None
    largest_cost_nano_usd: int | None = None
    largest_wall_ms: int | None = None

    @property
    def amounts(self) -> Amounts:
        """The settled amounts without the largest call."""
        return Amounts(**{measure: getattr(self, measure) for measure in MEASURES})

    def with_call(self, most: MaxAmounts, actual: Amounts) -> "ScopeTotal":
        """Return the total after one more call, which reserved `most` and cost `actual`."""
        sums = map(_add_capped, _get_all(self), _get_all(actual))
        largest = map(_larger, _get_largest(self), _get_known_after(most), _get_known_after(actual))
        return ScopeTotal(*sums, *largest)


class OpenCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The maximum cost of a granted call that is neither settled nor released."""

    rounds: int
    tokens: int | None
    cost_nano_usd: int | None
    tool_calls: int
    wall_ms: int | None


class BudgetState(msgspec.Struct, frozen=True):
    """The total and the open calls of a scope.

    An open call is in flight while its process runs, and lost if that process died.
    """

    total: ScopeTotal = ScopeTotal()
    in_flight: Sequence[OpenCall] = ()
    lost: Sequence[OpenCall] = ()

    @property
    def open_calls(self) -> Sequence[OpenCall]:
        """The calls in flight and the lost calls."""
        return (*self.in_flight, *self.lost)


def find_refusal(reservation: Reservation, states: Mapping[str, BudgetState]) -> Refusal | None:
    """Return why the call may not be made now, or None if all its scopes allow it.

    Only measures that the call uses count. `BudgetSpentError` takes precedence over `BudgetBusyError`.
    """
    refusals: list[Refusal] = [
        why for cap in reservation.caps for why in _iter_refusals(cap, reservation.most, states[cap.scope])
    ]
    spent = (why for why in refusals if isinstance(why, BudgetSpentError))
    return next(spent, refusals[0] if refusals else None)


def _iter_refusals(cap: BudgetCap, most: MaxAmounts, state: BudgetState) -> Iterator[Refusal]:
    for measure in KNOWN_BEFORE_CALL:
        limit: int | None = getattr(cap, measure)
        if limit is not None and (needed := getattr(most, measure)):
            used = getattr(state.total, measure) + sum(map(attrgetter(measure), state.open_calls))
            if used + needed > limit:
                yield BudgetSpentError(cap.scope, measure, limit, used)
    for measure in KNOWN_AFTER_CALL:
        limit: int | None = getattr(cap, measure)
        if limit is not None and (needed := getattr(most, measure)) != 0:
            used = getattr(state.total, measure)
            if used >= limit:
                yield BudgetSpentError(cap.scope, measure, limit, used)
            elif why := _reason_to_wait(measure, limit, needed, state):
                yield BudgetBusyError(cap.scope, measure, why)


def _reason_to_wait(measure: Measure, limit: int, most: int | None, state: BudgetState) -> str:
    """Return why a call of that maximum cost has to wait; empty if it may be made now."""
    get_amount = attrgetter(measure)
    lost: list[int | None] = [each for each in map(get_amount, state.lost) if each != 0]
    in_flight: list[int | None] = [each for each in map(get_amount, state.in_flight) if each != 0]
    known: int | None = getattr(state.total, f"largest_{measure}")
    largest = known or 0
    committed: int = getattr(state.total, measure)
    committed += sum(max(each or 0, largest) for each in lost)
    if committed >= limit:
        return "calls of processes that died may have spent the rest; open their conversations to settle them"
    if not in_flight:
        return ""
    if known is None:
        return "what a call costs here is not known before the first has ended"
    for each in (*in_flight, most):
        if each is None:
            return "a call whose cost cannot be known beforehand is made by itself"
        # Adds the larger of `each` and `largest`. With many calls in flight, `max` would take most of the time.
        committed += largest
        if each > largest:
            committed += each - largest
    return "" if committed <= limit else f"{len(in_flight)} calls in flight may need the rest"


def _add_capped(spent: int, more: int) -> int:
    return min(spent + more, MAX_AMOUNT)


def _larger(largest: int | None, most: int | None, actual: int) -> int | None:
    """Return the new largest cost. Calls that reserved nothing and cost nothing do not count."""
    return largest if most == 0 and not actual else max(largest or 0, actual)
