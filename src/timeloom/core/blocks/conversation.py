"""Blocks about the conversation as a whole: whose it is, what it is called, what it knows and what was summed up."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks.block import Block, BlockError, need_count, need_positive, need_text
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.paths import PathError, select
from timeloom.core.payload import Text
from timeloom.core.sources import SourceRow


class ForkPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The place in another conversation where this one began."""

    conversation_id: ConversationId
    seq: int

    def __post_init__(self) -> None:
        need_count(self.seq, "seq", least=1)


class ConversationStarted(Block, tag="conv.header", frozen=True, kw_only=True):
    """The first entry of every conversation: who it belongs to and where it came from."""

    type_name: ClassVar[str] = "conv.header"
    fixed_mime: ClassVar[str] = "application/json"
    tenant: str
    project: str
    user: str
    bundle: str = ""
    parent: ConversationId | None = None
    forked_from: ForkPoint | None = None
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_text(self.tenant, "tenant")
        need_text(self.project, "project")
        need_text(self.user, "user")


class Titled(Block, tag="conv.title", frozen=True, kw_only=True):
    """The conversation's title from here on."""

    type_name: ClassVar[str] = "conv.title"
    fixed_mime: ClassVar[str] = "text/plain"
    text: str
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_text(self.text, "text")


class SourcesAdded(Block, tag="conv.sources.added", frozen=True, kw_only=True):
    """Rows that joined the sources pool or replaced the row of the same sid; their bodies are payloads."""

    type_name: ClassVar[str] = "conv.sources.added"
    fixed_mime: ClassVar[str] = "application/json"
    rows: tuple[SourceRow, ...]
    tool_call_id: CallId | None = None
    author: str = "runtime"

    def __post_init__(self) -> None:
        try:
            select(row.sid for row in self.rows)
        except PathError as error:
            raise BlockError(f"rows: {error}") from error


class WorkingSummary(Block, tag="conv.working.summary", frozen=True, kw_only=True):
    """What a turn was about, for the turns after it; `n` counts the summaries of one turn."""

    type_name: ClassVar[str] = "conv.working.summary"
    text: Text
    n: int = 1

    def __post_init__(self) -> None:
        need_text(self.text, "text")
        need_positive(self.n, "n")

    def path(self, turn: TurnId) -> str:
        return f"ws:{turn}.conv.working.summary.{self.n}"

    def alias(self, turn: TurnId) -> str:
        return f"ws:{turn}.conv.working.summary"


class RangeSummary(Block, tag="conv.range.summary", frozen=True, kw_only=True):
    """Stands for the entries `first_seq` to `last_seq`; where those are absent, for the covered turns."""

    type_name: ClassVar[str] = "conv.range.summary"
    covered_turn_ids: tuple[TurnId, ...]
    text: Text
    first_seq: int = 0
    last_seq: int = 0
    n: int = 1
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_text(self.text, "text")
        need_positive(self.n, "n")
        need_count(self.last_seq, "last_seq")
        need_count(self.first_seq, "first_seq", most=self.last_seq)
        if not self.covered_turn_ids and not self.last_seq:
            raise BlockError("a summary covers turns or a range of seqs, got neither")

    def path(self, turn: TurnId) -> str:
        return f"su:{turn}.conv.range.summary.{self.n}"

    def alias(self, turn: TurnId) -> str:
        return f"su:{turn}.conv.range.summary"


class Erased(Block, tag="conv.erased", frozen=True, kw_only=True):
    """What the conversation held was erased at somebody's word; this block is all that says so."""

    type_name: ClassVar[str] = "conv.erased"
    by: str
    text: str = ""
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_text(self.by, "by")
