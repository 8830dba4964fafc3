"""The rule by which a ledger grants a reservation, makes it wait or refuses it."""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from timeloom.core.policy.budget import MEASURES, Measure
from timeloom.ports.ledger import (
    MOST_AMOUNT,
    Amounts,
    BudgetBusyError,
    BudgetSpentError,
    Cap,
    Most,
    Reservation,
)

COUNTED: Final[tuple[Measure, ...]] = ("rounds", "tool_calls")
"""Measures whose cost is known before a call. A reserved amount counts as spent."""

MEASURED: Final[tuple[Measure, ...]] = ("tokens", "cost_nano_usd", "wall_ms")
"""Measures whose cost is known only after a call.

Several calls may be in flight only if the limit covers all of them together; otherwise one call runs alone."""

_ALL: Final = attrgetter(*MEASURES)
_MEASURED: Final = attrgetter(*MEASURED)
_LARGEST: Final = attrgetter(*(f"largest_{measure}" for measure in MEASURED))

Refusal = BudgetSpentError | BudgetBusyError


class Total(msgspec.Struct, frozen=True, array_like=True):
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

    def after(self, most: Most, actual: Amounts) -> "Total":
        """Return the total after one more call, which reserved `most` and cost `actual`."""
        sums = map(_sum, _ALL(self), _ALL(actual))
        largest = map(_larger, _LARGEST(self), _MEASURED(most), _MEASURED(actual))
        return Total(*sums, *largest)


class OpenCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The maximum cost of a granted call that is neither settled nor released."""

    rounds: int
    tokens: int | None
    cost_nano_usd: int | None
    tool_calls: int
    wall_ms: int | None


class Standing(msgspec.Struct, frozen=True):
    """The total and the open calls of a scope.

    An open call is in flight while its process runs, and lost if that process died.
    """

    total: Total = Total()
    flight: Sequence[OpenCall] = ()
    lost: Sequence[OpenCall] = ()

    @property
    def open(self) -> Sequence[OpenCall]:
        """The calls in flight and the lost calls."""
        return (*self.flight, *self.lost)


def refusal(reservation: Reservation, standings: Mapping[str, Standing]) -> Refusal | None:
    """Return why the call may not be made now, or None if all its scopes allow it.

    Only measures that the call uses count. `BudgetSpentError` takes precedence over `BudgetBusyError`.
    """
    found: list[Refusal] = [
        why for cap in reservation.caps for why in _refusals(cap, reservation.most, standings[cap.scope])
    ]
    spent = (why for why in found if isinstance(why, BudgetSpentError))
    return next(spent, found[0] if found else None)


def _refusals(cap: Cap, most: Most, standing: Standing) -> Iterator[Refusal]:
    for measure in COUNTED:
        limit: int | None = getattr(cap, measure)
        if limit is not None and (needed := getattr(most, measure)):
            used = getattr(standing.total, measure) + sum(map(attrgetter(measure), standing.open))
            if used + needed > limit:
                yield BudgetSpentError(cap.scope, measure, limit, used)
    for measure in MEASURED:
        limit: int | None = getattr(cap, measure)
        if limit is not None and (needed := getattr(most, measure)) != 0:
            used = getattr(standing.total, measure)
            if used >= limit:
                yield BudgetSpentError(cap.scope, measure, limit, used)
            elif why := _hindrance(measure, limit, needed, standing):
                yield BudgetBusyError(cap.scope, measure, why)


def _hindrance(measure: Measure, limit: int, most: int | None, standing: Standing) -> str:
    """Return why a call of that maximum cost has to wait; empty if it may be made now."""
    promised = attrgetter(measure)
    lost: list[int | None] = [each for each in map(promised, standing.lost) if each != 0]
    flight: list[int | None] = [each for each in map(promised, standing.flight) if each != 0]
    known: int | None = getattr(standing.total, f"largest_{measure}")
    largest = known or 0
    together: int = getattr(standing.total, measure)
    together += sum(max(each or 0, largest) for each in lost)
    if together >= limit:
        return "calls of processes that died may have spent the rest; open their conversations to settle them"
    if not flight:
        return ""
    if known is None:
        return "what a call costs here is not known before the first has ended"
    for each in (*flight, most):
        if each is None:
            return "a call whose cost cannot be known beforehand is made by itself"
        # Adds the larger of `each` and `largest`. With many calls in flight, `max` would take most of the time.
        together += largest
        if each > largest:
            together += each - largest
    return "" if together <= limit else f"{len(flight)} calls in flight may need the rest"


def _sum(spent: int, more: int) -> int:
    return min(spent + more, MOST_AMOUNT)


def _larger(largest: int | None, most: int | None, actual: int) -> int | None:
    """Return the new largest cost. Calls that reserved nothing and cost nothing do not count."""
    return largest if most == 0 and not actual else max(largest or 0, actual)
