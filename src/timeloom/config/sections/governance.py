"""Settings of governance: what each scope may spend, and what is asked, refused and allowed before a step.

No bundle sets any of them: who writes an agent does not decide how much its operator pays, or what is left to people.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal, assert_never

import msgspec
from msgspec import Meta

from timeloom.config.field_help import About
from timeloom.core.policy.budget import Allowance, Budgets
from timeloom.core.policy.gates import (
    Policy,
    ask_before,
    calls_per_turn,
    irreversible_needs_approval,
    only_tools,
    tainted_irreversible_needs_approval,
)

NANO_USD: Final = 1_000_000_000
"""How many of the units in which money is counted make a dollar."""

EVERY_TOOL: Final = "*"

NoLimit = Literal["none"]
"""A word of its own, because 0 could also be meant as nothing at all."""

Amount = Annotated[int, Meta(ge=1, le=10**12)] | NoLimit
Calls = Annotated[int, Meta(ge=0, le=10**12)] | NoLimit
Dollars = Annotated[float, Meta(gt=0, le=1_000_000)] | NoLimit
WorkSeconds = Annotated[float, Meta(gt=0, le=100_000_000)] | NoLimit

# A name that fits no tool would leave unasked what somebody wanted to be asked about, so its form is checked.
ToolId = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)+\Z")]
ToolName = Annotated[
    str, Meta(pattern=r"\A(?:\*|[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*\.(?:[A-Za-z0-9_-]+|\*))\Z")
]
ToolNames = Annotated[
    tuple[ToolName, ...],
    Meta(
        description="tools such as `web.search`, or `web.*` for a family, or `*` for all; an array in the file, "
        "commas between them elsewhere"
    ),
]
CallTable = Annotated[
    Mapping[ToolId, Annotated[int, Meta(ge=0, le=10**6)]],
    Meta(description='a table of whole numbers by tool, its id in quotes: `"web.search" = 5`'),
]


class AllowanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one scope may spend."""

    rounds: Annotated[Amount, About("Budget of a {group}: most rounds.")] = "none"
    tokens: Annotated[Amount, About("Budget of a {group}: most tokens that models read and write.")] = "none"
    usd: Annotated[Dollars, About("Budget of a {group}: most dollars that models cost.")] = "none"
    tool_calls: Annotated[Calls, About("Budget of a {group}: most calls of tools.")] = "none"
    wall_s: Annotated[WorkSeconds, About("Budget of a {group}: most seconds that models and tools take.")] = "none"

    def allowance(self) -> Allowance:
        """The same, as the budgets count it."""
        return Allowance(
            rounds=_whole(self.rounds),
            tokens=_whole(self.tokens),
            cost_nano_usd=_whole(self.usd, NANO_USD),
            tool_calls=_whole(self.tool_calls),
            wall_ms=_whole(self.wall_s, 1000),
        )


class BudgetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What every scope may spend."""

    turn: AllowanceSettings = AllowanceSettings()
    conversation: AllowanceSettings = AllowanceSettings()
    tree: AllowanceSettings = AllowanceSettings()
    user: AllowanceSettings = AllowanceSettings()
    project: AllowanceSettings = AllowanceSettings()

    def budgets(self) -> Budgets:
        """The budgets that a conversation is held with."""
        return Budgets(
            turn=self.turn.allowance(),
            conversation=self.conversation.allowance(),
            tree=self.tree.allowance(),
            user=self.user.allowance(),
            project=self.project.allowance(),
        )


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, refused and allowed before a tool is called."""

    irreversible: Annotated[
        Literal["approve", "approve_tainted", "allow"],
        About(
            "Whether calls that cannot be undone need a person's leave: all, those that text from outside may have "
            "suggested, or none.",
            lifts_guard=True,
        ),
    ] = "approve"
    tools: Annotated[ToolNames, About("Tools that may be called; all others are refused.")] = (EVERY_TOOL,)
    ask_before: Annotated[
        ToolNames,
        About(
            "Tools that are called only with a person's leave, whatever they do.",
            option="--ask-before",
            metavar="TOOLS",
        ),
    ] = ()
    calls_per_turn: Annotated[
        CallTable, About("How often a turn may call a tool; a tool that is not named has no limit.")
    ] = msgspec.field(default_factory=dict[str, int])

    def policies(self) -> tuple[Policy, ...]:
        """The policies that a conversation is held with."""
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
        if self.ask_before:
            yield ask_before(self.ask_before)


def _whole(limit: float | NoLimit, units: int = 1) -> int | None:
    return None if limit == "none" else round(limit * units)
