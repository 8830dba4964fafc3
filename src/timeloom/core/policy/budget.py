"""Budgets of turns, conversations, users and projects, and the check that stops a step when one is used up."""

from collections.abc import Iterator
from typing import Final, Literal, assert_never

import msgspec

from timeloom.core.policy.gates import ModelStep, SpendTotals, ToolStep

Scope = Literal["turn", "conversation", "tree", "user", "project"]
"""The scope of a budget. A tree is a conversation with all its descendants."""

SCOPES: Final[tuple[Scope, ...]] = ("turn", "conversation", "tree", "user", "project")

Measure = Literal["rounds", "tokens", "cost_nano_usd", "tool_calls", "wall_ms"]
"""The unit that a budget counts. Money is in billionths of a dollar; time is the duration of model and tool calls."""


NANO_USD: Final = 1_000_000_000
"""Nano-dollars in a dollar."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one scope; None means no limit. `usd` is another way to write `cost_nano_usd`."""

    rounds: int | None = None
    tokens: int | None = None
    cost_nano_usd: int | None = None
    tool_calls: int | None = None
    wall_ms: int | None = None
    usd: float | None = None

    def __post_init__(self) -> None:
        if self.usd is not None:
            msgspec.structs.force_setattr(self, "cost_nano_usd", round(self.usd * NANO_USD))
            msgspec.structs.force_setattr(self, "usd", None)

    def limits(self) -> Iterator[tuple[Measure, int]]:
        """Yield the measures that have a limit."""
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


class BudgetUsage(msgspec.Struct, frozen=True):
    """The used amount and the limit of one measure in one scope."""

    scope: Scope
    measure: Measure
    used: int
    limit: int

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is left. The current round is already counted and may still ask the model."""
        return self.used > self.limit if self.measure == "rounds" else self.used >= self.limit


def list_budget_usage(scope: Scope, allowance: Allowance, spent: SpendTotals) -> tuple[BudgetUsage, ...]:
    """Return the usage of every limited measure of the scope."""
    return tuple(BudgetUsage(scope, measure, getattr(spent, measure), limit) for measure, limit in allowance.limits())


def find_exhausted(known: tuple[BudgetUsage, ...], step: ModelStep | ToolStep) -> BudgetUsage | None:
    """Return the first exhausted usage that applies to the step: rounds to model requests, tool calls to tools."""
    return next((one for one in known if one.is_exhausted and applies_to_step(one.measure, step)), None)


def applies_to_step(measure: Measure, step: ModelStep | ToolStep) -> bool:
    """Whether the step spends this measure, or must not begin once the measure is used up."""
    match measure:
        case "rounds" | "tokens" | "cost_nano_usd":
            return isinstance(step, ModelStep)
        case "tool_calls":
            return isinstance(step, ToolStep)
        case "wall_ms":
            return True
        case _:
            assert_never(measure)


def describe_exhausted(usage: BudgetUsage) -> str:
    """Return the sentence that names the exhausted budget."""
    # The round that this budget stopped is already counted.
    used = min(usage.used, usage.limit) if usage.measure == "rounds" else usage.used
    limit = format_amount(usage.measure, usage.limit)
    return f"the {usage.scope}'s budget is used up: {format_amount(usage.measure, used)} of {limit}"


def format_amount(measure: Measure, value: int) -> str:
    """Return the amount with its unit, for people and models."""
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
