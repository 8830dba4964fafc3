"""Blocks that remove others from prompts; the hidden blocks stay on the timeline and readable by path."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks.block import Block, BlockError, need_count, need_path, need_text


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
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_count(self.through_seq, "through_seq")
        if not self.cuts:
            raise BlockError("a prune names at least one cut, got none")
        for before, after in zip(self.cuts, self.cuts[1:], strict=False):
            if after.first_seq <= before.last_seq:
                raise BlockError(f"cuts are in order and apart, got {after.first_seq} after {before.last_seq}")
