"""The view that maps each path to its entries."""

from collections.abc import Sequence

import msgspec

from timeloom.core.timeline import Entry


class PathsView(msgspec.Struct):
    """Every path with its entries in order, and every alias with its newest entry."""

    seqs: dict[str, list[int]] = {}
    aliases: dict[str, int] = {}

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        if path := entry.path:
            self.seqs.setdefault(path, []).append(entry.seq)
        if alias := entry.alias:
            self.aliases[alias] = entry.seq

    def find(self, path: str) -> Sequence[int]:
        """Return the entries at that path, oldest first; for an alias, its newest entry."""
        if seq := self.aliases.get(path):
            return (seq,)
        return self.seqs.get(path, ())
