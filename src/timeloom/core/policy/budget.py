"""Budgets: how much turns, conversations, users and projects may spend, and whether a step may still be taken."""

from collections.abc import Iterator
from typing import Final, Literal, assert_never

import msgspec

from timeloom.core.policy.gates import ModelStep, Spent, ToolStep

Scope = Literal["turn", "conversation", "tree", "user", "project"]
"""What a budget is for. A tree is a conversation with all that were begun from it."""

SCOPES: Final[tuple[Scope, ...]] = ("turn", "conversation", "tree", "user", "project")

Measure = Literal["rounds", "tokens", "cost_nano_usd", "tool_calls", "wall_ms"]
"""What a budget counts; money in billionths of a dollar, and the time that model and tool calls take."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What one scope may spend; None is no limit."""

    rounds: int | None = None
    tokens: int | None = None
    cost_nano_usd: int | None = None
    tool_calls: int | None = None
    wall_ms: int | None = None

    def limits(self) -> Iterator[tuple[Measure, int]]:
        """The measures that have a limit."""
        for measure in MEASURES:
            limit: int | None = getattr(self, measure)
            if limit is not None:
                yield measure, limit


MEASURES: Final[tuple[Measure, ...]] = ("rounds", "tokens", "cost_nano_usd", "tool_calls", "wall_ms")


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """The allowance of every scope."""

    turn: Allowance = Allowance()
    conversation: Allowance = Allowance()
    tree: Allowance = Allowance()
    user: Allowance = Allowance()
    project: Allowance = Allowance()


class Account(msgspec.Struct, frozen=True):
    """A measure of a scope: what was used of it and where it ends."""

    scope: Scope
    measure: Measure
    used: int
    limit: int

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is left; the running round is counted already, and may be asked in."""
        return self.used > self.limit if self.measure == "rounds" else self.used >= self.limit


def accounts(scope: Scope, allowance: Allowance, spent: Spent) -> tuple[Account, ...]:
    """The accounts of a scope that has limits."""
    return tuple(Account(scope, measure, getattr(spent, measure), limit) for measure, limit in allowance.limits())


def exhausted(known: tuple[Account, ...], step: ModelStep | ToolStep) -> Account | None:
    """The first account that has nothing left for the step: rounds are for asking models, tool calls for tools."""
    return next((one for one in known if one.is_exhausted and counts(one.measure, step)), None)


def counts(measure: Measure, step: ModelStep | ToolStep) -> bool:
    """Whether the step spends of that measure, or must not begin once it is used up."""
    match measure:
        case "rounds" | "tokens" | "cost_nano_usd":
            return isinstance(step, ModelStep)
        case "tool_calls":
            return isinstance(step, ToolStep)
        case "wall_ms":
            return True
        case _:
            assert_never(measure)


def told(account: Account) -> str:
    """The sentence that says which budget is used up."""
    # The round that was not begun for it is counted already.
    used = min(account.used, account.limit) if account.measure == "rounds" else account.used
    limit = amount(account.measure, account.limit)
    return f"the {account.scope}'s budget is used up: {amount(account.measure, used)} of {limit}"


def amount(measure: Measure, value: int) -> str:
    """An amount with its unit, for people and models."""
    match measure:
        case "rounds" | "tokens":
            return f"{value} {measure}"
        case "tool_calls":
            return f"{value} tool calls"
        case "cost_nano_usd":
            return f"${value / 1e9:.4f}"
        case "wall_ms":
            return f"{value / 1000:.1f} s"
        case _:
            assert_never(measure)
