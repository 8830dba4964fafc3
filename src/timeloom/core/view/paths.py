"""The view that maps each path to its entries."""

from collections.abc import Sequence
from typing import Final

import msgspec

from timeloom.core.blocks import BLOCK_CLASSES, Block
from timeloom.core.timeline import Entry

NUMBERED: Final = frozenset(cls for cls in BLOCK_CLASSES if cls.alias is not Block.alias)
"""The block classes of numbered families, which have an alias."""


class PathsView(msgspec.Struct):
    """Every path with its entries in order, and every alias with its newest entry."""

    seqs: dict[str, list[int]] = {}
    aliases: dict[str, int] = {}

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        block, turn, seq = entry.block, entry.turn_id, entry.seq
        if path := block.path(turn):
            seqs = self.seqs.get(path)
            if seqs is None:
                self.seqs[path] = [seq]
            else:
                seqs.append(seq)
        if type(block) in NUMBERED:
            self.aliases[block.alias(turn)] = seq

    def find(self, path: str) -> Sequence[int]:
        """Return the entries at that path, oldest first; for an alias, its newest entry."""
        if seq := self.aliases.get(path):
            return (seq,)
        return self.seqs.get(path, ())
