"""Granting: the rule by which a ledger lets a call through, makes it wait, or refuses it."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from timeloom.ports.ledger import (
    MOST_AMOUNT,
    Amounts,
    BudgetBusyError,
    BudgetSpentError,
    Cap,
    Measure,
    Most,
    Reservation,
)

Refusal = BudgetSpentError | BudgetBusyError


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """What was settled in a scope, and its largest call, which is none where none was settled."""

    rounds: int = 0
    tokens: int = 0
    cost_nano_usd: int = 0
    tool_calls: int = 0
    largest_tokens: int | None = None
    largest_cost_nano_usd: int | None = None

    @property
    def amounts(self) -> Amounts:
        """What was settled."""
        return Amounts(
            rounds=self.rounds, tokens=self.tokens, cost_nano_usd=self.cost_nano_usd, tool_calls=self.tool_calls
        )

    def after(self, most: Most, actual: Amounts) -> "Total":
        """The total after one more call that was reserved and settled so."""
        return Total(
            rounds=_sum(self.rounds, actual.rounds),
            tokens=_sum(self.tokens, actual.tokens),
            cost_nano_usd=_sum(self.cost_nano_usd, actual.cost_nano_usd),
            tool_calls=_sum(self.tool_calls, actual.tool_calls),
            largest_tokens=_larger(self.largest_tokens, most.tokens, actual.tokens),
            largest_cost_nano_usd=_larger(self.largest_cost_nano_usd, most.cost_nano_usd, actual.cost_nano_usd),
        )


class OpenCall(msgspec.Struct, frozen=True, gc=False):
    """A grant that is neither settled nor released: the most it may cost, and whether its process still runs."""

    rounds: int
    tokens: int | None
    cost_nano_usd: int | None
    tool_calls: int
    alive: bool


class Standing(msgspec.Struct, frozen=True):
    """All that is known of a scope."""

    total: Total = Total()
    open: Sequence[OpenCall] = ()


def refusal(reservation: Reservation, standings: Mapping[str, Standing]) -> Refusal | None:
    """Why the call may not be made now, or nothing: then it may, in all its scopes.

    Only measures of which the call takes something count. That there will be nothing is said before that there is
    nothing now.
    """
    found: list[Refusal] = [
        why for cap in reservation.caps for why in _refusals(cap, reservation.most, standings[cap.scope])
    ]
    spent = (why for why in found if isinstance(why, BudgetSpentError))
    return next(spent, found[0] if found else None)


def presumed(most: Most) -> Amounts:
    """What a call is charged with that may have been made and that nobody can settle any more."""
    return Amounts(
        rounds=most.rounds,
        tokens=most.tokens or 0,
        cost_nano_usd=most.cost_nano_usd or 0,
        tool_calls=most.tool_calls,
    )


def _refusals(cap: Cap, most: Most, standing: Standing) -> Iterator[Refusal]:
    total, open_calls = standing.total, standing.open
    if cap.rounds is not None:
        counted = _Counted(cap.scope, "rounds", cap.rounds, total.rounds)
        yield from counted.refusals(most.rounds, [call.rounds for call in open_calls])
    if cap.tool_calls is not None:
        counted = _Counted(cap.scope, "tool_calls", cap.tool_calls, total.tool_calls)
        yield from counted.refusals(most.tool_calls, [call.tool_calls for call in open_calls])
    if cap.tokens is not None:
        measured = _Measured(cap.scope, "tokens", cap.tokens, total.tokens, total.largest_tokens)
        yield from measured.refusals(most.tokens, [(call.tokens, call.alive) for call in open_calls])
    if cap.cost_nano_usd is not None:
        largest = total.largest_cost_nano_usd
        measured = _Measured(cap.scope, "cost_nano_usd", cap.cost_nano_usd, total.cost_nano_usd, largest)
        yield from measured.refusals(most.cost_nano_usd, [(call.cost_nano_usd, call.alive) for call in open_calls])


class _Counted(msgspec.Struct, frozen=True):
    """A measure that is known beforehand: what is reserved is as good as spent."""

    scope: str
    measure: Measure
    limit: int
    spent: int

    def refusals(self, most: int, reserved: Sequence[int]) -> Iterator[Refusal]:
        used = self.spent + sum(reserved)
        if most and used + most > self.limit:
            yield BudgetSpentError(self.scope, self.measure, self.limit, used)


class _Measured(msgspec.Struct, frozen=True):
    """A measure that is known only afterwards: all calls in flight fit under the limit together, or there is one."""

    scope: str
    measure: Measure
    limit: int
    spent: int
    largest: int | None

    def refusals(self, most: int | None, reserved: Sequence[tuple[int | None, bool]]) -> Iterator[Refusal]:
        if most == 0:
            return
        if self.spent >= self.limit:
            yield BudgetSpentError(self.scope, self.measure, self.limit, self.spent)
        elif why := self._hindrance(most, reserved):
            yield BudgetBusyError(self.scope, self.measure, why)

    def _hindrance(self, most: int | None, reserved: Sequence[tuple[int | None, bool]]) -> str:
        """Why a call that may cost so much has to wait; empty where it need not."""
        largest = self.largest or 0
        lost = sum(max(each or 0, largest) for each, is_alive in reserved if not is_alive and each != 0)
        if self.spent + lost >= self.limit:
            return "calls of processes that died may have spent the rest; open their conversations to settle them"
        flight = [each for each, is_alive in reserved if is_alive and each != 0]
        if not flight:
            return ""
        if self.largest is None:
            return "what a call costs here is not known before the first has ended"
        together = self.spent + lost
        for each in (*flight, most):
            if each is None:
                return "a call whose cost cannot be known beforehand is made by itself"
            together += max(each, largest)
        return "" if together <= self.limit else f"{len(flight)} calls in flight may need the rest"


def _sum(spent: int, more: int) -> int:
    return min(spent + more, MOST_AMOUNT)


def _larger(largest: int | None, most: int | None, actual: int) -> int | None:
    """A call counts that could have cost something, or did."""
    return largest if most == 0 and not actual else max(largest or 0, actual)
