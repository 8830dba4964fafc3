"""Blocks that remove others from prompts; the hidden blocks stay on the timeline and readable by path."""

from typing import ClassVar, Literal

import msgspec

from timeloom.core.blocks.block import Block, BlockError, need_count, need_message, need_path, need_text
from timeloom.core.ids import MessageId

CompactionOutcome = Literal["completed", "skipped"]
"""Whether a requested compaction summarized something, or found nothing to summarize."""


class Hidden(Block, tag="react.hidden", frozen=True, kw_only=True):
    """Shows the blocks at `target` as `replacement` in all later prompts."""

    type_name: ClassVar[str] = "react.hidden"
    target: str
    replacement: str

    def __post_init__(self) -> None:
        need_path(self.target, "target")
        need_text(self.replacement, "replacement")


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shows entries `first_seq` to `last_seq` as `text`, or not at all if `text` is empty."""

    first_seq: int
    last_seq: int
    text: str = ""

    def __post_init__(self) -> None:
        need_count(self.last_seq, "last_seq", least=1)
        need_count(self.first_seq, "first_seq", least=1, most=self.last_seq)


class Pruned(Block, tag="react.pruned", frozen=True, kw_only=True):
    """Shows each cut's entries as its text in all later prompts; `reason` records the arithmetic of the decision."""

    type_name: ClassVar[str] = "react.pruned"
    cuts: tuple[Cut, ...]
    reason: str = ""
    through_seq: int = 0
    """All turns up to this seq are shown as cards from now on; 0 if the cuts have another purpose."""
    round_tokens: int = 0
    """Estimated tokens of the rounds that rows replace."""
    row_tokens: int = 0
    """Estimated tokens of these rows; the next prune expects the same share."""
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_count(self.through_seq, "through_seq")
        need_count(self.round_tokens, "round_tokens")
        need_count(self.row_tokens, "row_tokens")
        if not self.cuts:
            raise BlockError("a prune names at least one cut, got none")
        for before, after in zip(self.cuts, self.cuts[1:], strict=False):
            if after.first_seq <= before.last_seq:
                raise BlockError(f"cuts are in order and apart, got {after.first_seq} after {before.last_seq}")


class CompactionRequested(Block, tag="react.compact.request", frozen=True, kw_only=True):
    """Requests a summary of the conversation before its newest `keep` rounds; `text` says what it should keep."""

    type_name: ClassVar[str] = "react.compact.request"
    message_id: MessageId
    """The id of the request; a request that is sent again has the same."""
    text: str = ""
    keep: int = 0
    """The number of rounds that stay; 0 means the default."""
    author: str = "user"

    def __post_init__(self) -> None:
        need_message(self.message_id)
        need_count(self.keep, "keep")


class CompactionEnded(Block, tag="react.compact.end", frozen=True, kw_only=True):
    """The outcome of the request `message_id`: the summarized turns and tokens, or the reason why nothing was done."""

    type_name: ClassVar[str] = "react.compact.end"
    message_id: MessageId
    outcome: CompactionOutcome
    turns: int = 0
    """The turns that the summary covers at least in part."""
    covered_tokens: int = 0
    """Estimated tokens that the summary replaced."""
    summary_tokens: int = 0
    """Estimated tokens of the summary."""
    text: str = ""
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_message(self.message_id)
        need_count(self.turns, "turns")
        need_count(self.covered_tokens, "covered_tokens")
        need_count(self.summary_tokens, "summary_tokens")


class Pinned(Block, tag="react.pinned", frozen=True, kw_only=True):
    """Keeps the blocks at `target` in prompts that are pruned or summarized later, or ends that if not `pinned`."""

    type_name: ClassVar[str] = "react.pinned"
    target: str
    pinned: bool = True
    tokens: int = 0
    """Estimated tokens of the blocks when they were pinned."""
    text: str = ""
    """Why the runtime ended the pin."""

    def __post_init__(self) -> None:
        need_path(self.target, "target")
        need_count(self.tokens, "tokens")
