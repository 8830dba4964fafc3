"""Where each path leads: the entries that carry it."""

from collections.abc import Sequence

import msgspec

from timeloom.core.timeline import Entry


class PathsView(msgspec.Struct):
    """Every path with its entries in order, and every alias with the newest entry it means."""

    seqs: dict[str, list[int]] = {}
    aliases: dict[str, int] = {}

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        if path := entry.path:
            self.seqs.setdefault(path, []).append(entry.seq)
        if alias := entry.alias:
            self.aliases[alias] = entry.seq

    def find(self, path: str) -> Sequence[int]:
        """The entries at that path, oldest first; for an alias, the newest it means."""
        if seq := self.aliases.get(path):
            return (seq,)
        return self.seqs.get(path, ())
