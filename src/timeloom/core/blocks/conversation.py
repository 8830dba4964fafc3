"""Blocks about the whole conversation: its owner, title, sources, summaries and erasure."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks.block import Block, BlockError, need_count, need_positive, need_text
from timeloom.core.ids import CallId, ConversationId, TurnId
from timeloom.core.paths import PathError, select_sources
from timeloom.core.payload import Text
from timeloom.core.sources import SourceRow


class ForkPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entry of another conversation at which this one was forked."""

    conversation_id: ConversationId
    seq: int

    def __post_init__(self) -> None:
        need_count(self.seq, "seq", least=1)


class ConversationStarted(Block, tag="conv.header", frozen=True, kw_only=True):
    """First entry of every conversation: its owner and its origin."""

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
    """Sets the conversation's title."""

    type_name: ClassVar[str] = "conv.title"
    fixed_mime: ClassVar[str] = "text/plain"
    text: str
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_text(self.text, "text")


class SourcesAdded(Block, tag="conv.sources.added", frozen=True, kw_only=True):
    """Rows added to the sources pool, or newer versions of rows with the same sid; their bodies are payloads."""

    type_name: ClassVar[str] = "conv.sources.added"
    fixed_mime: ClassVar[str] = "application/json"
    rows: tuple[SourceRow, ...]
    tool_call_id: CallId | None = None
    author: str = "runtime"

    def __post_init__(self) -> None:
        try:
            select_sources(row.sid for row in self.rows)
        except PathError as error:
            raise BlockError(f"rows: {error}") from error


class WorkingSummary(Block, tag="conv.working.summary", frozen=True, kw_only=True):
    """Summary of a turn for later turns; `n` numbers the summaries of one turn."""

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
    """Replaces entries `first_seq` to `last_seq` in prompts, or the covered turns if both are 0."""

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


class ErasedForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An erased entry, and the salted hash of the form that replaced it."""

    seq: int
    hash: str

    def __post_init__(self) -> None:
        need_count(self.seq, "seq", least=1)


class Erased(Block, tag="conv.erased", frozen=True, kw_only=True):
    """Records that the conversation's content was erased, where, and on whose request."""

    type_name: ClassVar[str] = "conv.erased"
    by: str
    text: str = ""
    forms: tuple[ErasedForm, ...] = ()
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_text(self.by, "by")
