"""Blocks that open and close a turn."""

from typing import ClassVar, Literal

from timeloom.core.blocks.block import Block, need_positive
from timeloom.core.stream.declared import DeclaredChannel

EndReason = Literal[
    "completed",
    "exited",
    "stopped",
    "cancelled",
    "max_iterations",
    "budget_exhausted",
    "refused",
    "no_progress",
    "protocol_failure",
    "provider_error",
    "runtime_error",
]
"""Why a turn ended. Clients and statistics branch on this closed set, so a new reason is a format change."""


class TurnStarted(Block, tag="turn.header", frozen=True, kw_only=True):
    """Start of a turn; `n` is its ordinal in the conversation.

    With `rerun` the turn belongs to a re-run, which supplies its model and tools. Only that re-run may continue it.
    """

    type_name: ClassVar[str] = "turn.header"
    n: int
    rerun: bool = False
    edition: int = 1
    """The edition of everything that the model reads and writes in the turn."""
    output: str = ""
    """The JSON schema of the turn's answer, as compact JSON; empty if the answer is plain text."""
    channels: tuple[DeclaredChannel, ...] = ()
    """The channels that the turn declares beside the built-in ones."""
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_positive(self.n, "n")
        need_positive(self.edition, "edition")


class AgentLogStarted(Block, tag="agent.log.header", frozen=True, kw_only=True):
    """Heading above the agent's work in a turn in older logs; timeloom does not write it."""

    type_name: ClassVar[str] = "agent.log.header"
    text: str = ""


class TurnEnded(Block, tag="react.turn.end", frozen=True, kw_only=True):
    """End of a turn, with the reason."""

    type_name: ClassVar[str] = "react.turn.end"
    reason: EndReason
    text: str = ""
    author: str = "runtime"
