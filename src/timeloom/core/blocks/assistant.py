"""Blocks of the assistant's answers."""

from typing import ClassVar

from timeloom.core.blocks.block import Block, need_positive, need_sids
from timeloom.core.ids import TurnId
from timeloom.core.payload import Text


class Completion(Block, tag="assistant.completion", frozen=True, kw_only=True):
    """An answer shown to the user. `n` numbers the answers of a turn; the path without a number means the newest."""

    type_name: ClassVar[str] = "assistant.completion"
    text: Text
    n: int = 1
    sources_used: tuple[int, ...] = ()
    suggested_followups: tuple[str, ...] = ()
    unformatted: bool = False
    """Whether it is plain text of a reply that had no decision."""
    author: str = "assistant"

    def __post_init__(self) -> None:
        need_positive(self.n, "n")
        need_sids(self.sources_used)

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.assistant.completion.{self.n}"

    def alias(self, turn: TurnId) -> str:
        return f"ar:{turn}.assistant.completion"


class ReactCompletion(Block, tag="react.completion", frozen=True, kw_only=True):
    """The agent's closing text in older logs; timeloom does not write it."""

    type_name: ClassVar[str] = "react.completion"
    text: Text = ""
