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
        self.add_path(entry)
        if type(entry.block) in NUMBERED:
            self.aliases[entry.alias] = entry.seq

    def add_path(self, entry: Entry) -> None:
        """Fold in the next entry, which is not of a numbered family."""
        if path := entry.block.path(entry.turn_id):
            seqs = self.seqs.get(path)
            if seqs is None:
                self.seqs[path] = [entry.seq]
            else:
                seqs.append(entry.seq)

    def find(self, path: str) -> Sequence[int]:
        """Return the entries at that path, oldest first; for an alias, its newest entry."""
        if seq := self.aliases.get(path):
            return (seq,)
        return self.seqs.get(path, ())
