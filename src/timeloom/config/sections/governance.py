"""Settings of governance: budgets of each scope, and policies for tool calls.

Bundles cannot set any of them: the operator, not the author of an agent, decides on costs and approvals.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal, assert_never

import msgspec
from msgspec import Meta

from timeloom.config.field_help import SettingHelp
from timeloom.core.policy.budget import Allowance, Budgets
from timeloom.core.policy.gates import (
    TOOL_ID_PATTERN,
    TOOL_NAME_PATTERN,
    Policy,
    ask_before,
    calls_per_turn,
    irreversible_needs_approval,
    only_tools,
    tainted_irreversible_needs_approval,
    unseen_address_needs_approval,
)

NANO_USD_PER_DOLLAR: Final = 1_000_000_000
"""Nano-dollars per US dollar; money is counted in nano-dollars."""

EVERY_TOOL: Final = "*"

NoLimit = Literal["none"]
"""No limit. It is a word because 0 could also mean that nothing is allowed."""

Amount = Annotated[int, Meta(ge=1, le=10**12)] | NoLimit
Calls = Annotated[int, Meta(ge=0, le=10**12)] | NoLimit
Dollars = Annotated[float, Meta(gt=0, le=1_000_000)] | NoLimit
WorkSeconds = Annotated[float, Meta(gt=0, le=100_000_000)] | NoLimit

ToolId = Annotated[str, Meta(pattern=TOOL_ID_PATTERN)]
ToolName = Annotated[str, Meta(pattern=TOOL_NAME_PATTERN)]
ToolNames = Annotated[
    tuple[ToolName, ...],
    Meta(
        description="tools such as `web.search`, or `web.*` for a family, or `*` for all: an array in the file, "
        "comma-separated elsewhere"
    ),
]
CallTable = Annotated[
    Mapping[ToolId, Annotated[int, Meta(ge=0, le=10**6)]],
    Meta(description='a table of whole numbers by tool, its id in quotes: `"web.search" = 5`'),
]


class AllowanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The budget of one scope."""

    rounds: Annotated[Amount, SettingHelp("Budget of a {group}: maximum number of rounds.")] = "none"
    tokens: Annotated[
        Amount, SettingHelp("Budget of a {group}: maximum number of tokens read and written by models.")
    ] = "none"
    usd: Annotated[Dollars, SettingHelp("Budget of a {group}: maximum cost of model calls in US dollars.")] = "none"
    tool_calls: Annotated[Calls, SettingHelp("Budget of a {group}: maximum number of tool calls.")] = "none"
    wall_s: Annotated[WorkSeconds, SettingHelp("Budget of a {group}: maximum seconds spent in models and tools.")] = (
        "none"
    )

    def to_allowance(self) -> Allowance:
        """Return this budget in the units that the runtime counts."""
        return Allowance(
            rounds=_to_units(self.rounds),
            tokens=_to_units(self.tokens),
            cost_nano_usd=_to_units(self.usd, NANO_USD_PER_DOLLAR),
            tool_calls=_to_units(self.tool_calls),
            wall_ms=_to_units(self.wall_s, 1000),
        )


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The budgets of all scopes."""

    turn: AllowanceSettings = AllowanceSettings()
    conversation: AllowanceSettings = AllowanceSettings()
    tree: AllowanceSettings = AllowanceSettings()
    user: AllowanceSettings = AllowanceSettings()
    project: AllowanceSettings = AllowanceSettings()

    def to_budgets(self) -> Budgets:
        """Return the budgets of a conversation."""
        return Budgets(
            turn=self.turn.to_allowance(),
            conversation=self.conversation.to_allowance(),
            tree=self.tree.to_allowance(),
            user=self.user.to_allowance(),
            project=self.project.to_allowance(),
        )


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Policies that are checked before a tool is called."""

    irreversible: Annotated[
        Literal["approve", "approve_tainted", "allow"],
        SettingHelp(
            "Which calls that cannot be undone need a person's approval: all, only those that external text may have "
            "caused, or none."
        ),
    ] = "approve"
    new_addresses: Annotated[
        Literal["approve", "allow"],
        SettingHelp(
            "Whether web addresses that neither the user nor a source wrote need a person's approval, once the "
            "conversation contains external text."
        ),
    ] = "approve"
    tools: Annotated[ToolNames, SettingHelp("Tools that may be called; all others are rejected.")] = (EVERY_TOOL,)
    ask_before: Annotated[
        ToolNames,
        SettingHelp(
            "Tools that are called only with a person's approval, also if their calls can be undone.",
            option="--ask-before",
            metavar="TOOLS",
        ),
    ] = ()
    calls_per_turn: Annotated[
        CallTable,
        SettingHelp("Maximum number of calls per turn for each tool; tools that are not listed have no limit."),
    ] = msgspec.field(default_factory=dict[str, int])

    def to_policies(self) -> tuple[Policy, ...]:
        """Return the policies of a conversation."""
        return tuple(self._policies())

    def _policies(self) -> Iterator[Policy]:
        if EVERY_TOOL not in self.tools:
            yield only_tools(self.tools)
        if self.calls_per_turn:
            yield calls_per_turn(self.calls_per_turn)
        match self.irreversible:
            case "approve":
                yield irreversible_needs_approval
            case "approve_tainted":
                yield tainted_irreversible_needs_approval
            case "allow":
                pass
            case _:
                assert_never(self.irreversible)
        if self.new_addresses == "approve":
            yield unseen_address_needs_approval
        if self.ask_before:
            yield ask_before(self.ask_before)


def _to_units(limit: float | NoLimit, units: int = 1) -> int | None:
    return None if limit == "none" else round(limit * units)
