"""Blocks that take others out of sight; what they hide stays on the timeline and reachable by its path."""

from typing import ClassVar

import msgspec

from timeloom.core.blocks.block import Block, BlockError, need_count, need_path, need_text


class Hidden(Block, tag="react.hidden", frozen=True, kw_only=True):
    """From here on the blocks at `target` show as `replacement`."""

    type_name: ClassVar[str] = "react.hidden"
    target: str
    replacement: str

    def __post_init__(self) -> None:
        need_path(self.target, "target")
        need_text(self.replacement, "replacement")


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Entries `first_seq` to `last_seq` show as `text`, or as nothing where it is empty."""

    first_seq: int
    last_seq: int
    text: str = ""

    def __post_init__(self) -> None:
        need_count(self.last_seq, "last_seq", least=1)
        need_count(self.first_seq, "first_seq", least=1, most=self.last_seq)


class Pruned(Block, tag="react.pruned", frozen=True, kw_only=True):
    """From here on each cut's entries show as its text; `reason` keeps the arithmetic of the decision."""

    type_name: ClassVar[str] = "react.pruned"
    cuts: tuple[Cut, ...]
    reason: str = ""
    through_seq: int = 0
    """All turns up to here stand as cards from here on; 0 where the cuts are of another kind."""
    author: str = "runtime"

    def __post_init__(self) -> None:
        need_count(self.through_seq, "through_seq")
        if not self.cuts:
            raise BlockError("a prune names at least one cut, got none")
        for before, after in zip(self.cuts, self.cuts[1:], strict=False):
            if after.first_seq <= before.last_seq:
                raise BlockError(f"cuts are in order and apart, got {after.first_seq} after {before.last_seq}")
