"""Blocks of the channels that an agent declares."""

import re
from typing import ClassVar, Final

from timeloom.core.blocks.block import Block, BlockError, need_positive, need_text
from timeloom.core.ids import TurnId
from timeloom.core.payload import Text

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class ChannelText(Block, tag="react.channel", frozen=True, kw_only=True):
    """Text that the model wrote on a declared channel. `n` numbers the texts of one channel in a turn."""

    type_name: ClassVar[str] = "react.channel"
    channel: str
    mime: str
    text: Text
    round: int
    n: int = 1
    widget: str = ""
    """The name of the widget that shows it; empty shows the text."""
    cut: bool = False
    """Whether a part of the text is missing: the reply ended within it, or it was too long."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.channel):
            raise BlockError(f"channel is a word like chart, got {self.channel[:60]!r}")
        need_text(self.mime, "mime")
        need_positive(self.round, "round")
        need_positive(self.n, "n")

    def mime_type(self) -> str:
        return self.mime

    def path(self, turn: TurnId) -> str:
        return f"ar:{turn}.channel.{self.channel}.{self.n}"

    def alias(self, turn: TurnId) -> str:
        return f"ar:{turn}.channel.{self.channel}"
