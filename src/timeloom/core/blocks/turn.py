"""Blocks that open and close a turn."""

from typing import ClassVar, Literal

from timeloom.core.blocks.block import Block, need_positive

EndReason = Literal[
    "completed",
    "exited",
    "stopped",
    "cancelled",
    "max_iterations",
    "budget_exhausted",
    "refused",
    "protocol_failure",
    "provider_error",
    "runtime_error",
]
"""Why a turn ended. Closed: clients and statistics branch on it, so a new reason is a change of format."""


class TurnStarted(Block, tag="turn.header", frozen=True, kw_only=True):
    """A turn began; `n` is its ordinal in the conversation.

    With `rerun` it is one of a re-run: the model and the tools that it is run with are those of whoever runs it again,
    and nobody else goes on with it.
    """

    type_name: ClassVar[str] = "turn.header"
    n: int
    rerun: bool = False
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_positive(self.n, "n")


class AgentLogStarted(Block, tag="agent.log.header", frozen=True, kw_only=True):
    """The heading above what the agent did in a turn; older logs have it, nothing here writes it."""

    type_name: ClassVar[str] = "agent.log.header"
    text: str = ""


class TurnEnded(Block, tag="react.turn.end", frozen=True, kw_only=True):
    """The turn is over, for a stated reason."""

    type_name: ClassVar[str] = "react.turn.end"
    reason: EndReason
    text: str = ""
    author: str = "runtime"
