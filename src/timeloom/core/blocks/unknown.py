"""Block of an unknown type or form: stored completely and rendered as text."""

from typing import ClassVar

from timeloom.core.blocks.block import Block, BlockError
from timeloom.core.ids import TurnId
from timeloom.core.payload import Text


class Unknown(Block, tag="unknown", frozen=True, kw_only=True):
    """A foreign block; `json` is the text of the JSON object as received."""

    type_name: ClassVar[str] = "unknown"
    fixed_mime: ClassVar[str] = "application/json"
    json: Text
    foreign_type: str = ""
    foreign_path: str = ""
    author: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.json, str) and not (self.json[:1] == "{" and self.json[-1:] == "}"):
            raise BlockError(f"json is the text of a JSON object, got {self.json[:40]!r}")

    def path(self, turn: TurnId) -> str:
        return self.foreign_path
