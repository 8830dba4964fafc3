"""What is in sight: the entries left after hiding, pruning and summing up, and what stands for the others."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from timeloom.core.blocks import Hidden, Pruned, RangeSummary
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry

StandKind = Literal["hidden", "pruned", "summary"]


class Stand(msgspec.Struct, frozen=True, gc=False):
    """What stands where entries were: `text` as it was recorded, or for a summary the text of the entry `by`."""

    kind: StandKind
    by: int
    text: str = ""


class VisibleView(msgspec.Struct):
    """The entries in sight, in the order of the timeline, each as itself (None) or with what stands in its place."""

    shown: dict[int, Stand | None] = {}
    gone: dict[int, int] = {}
    """Each entry that is out of sight or stood for, with the newest entry that took it out."""

    at_path: dict[str, list[int]] = {}
    at_alias: dict[str, int] = {}
    in_turn: dict[TurnId, list[int]] = {}

    def add(self, entry: Entry) -> None:
        """Takes in the next entry; the cost follows what it puts in or takes out of sight."""
        match entry.block:
            case Hidden(target=target, replacement=text):
                self._replace(self._at(target), Stand("hidden", entry.seq, text))
            case Pruned(cuts=cuts):
                for cut in cuts:
                    stand = Stand("pruned", entry.seq, cut.text) if cut.text else None
                    self._replace(self._between(cut.first_seq, min(cut.last_seq, entry.seq - 1)), stand, entry.seq)
            case RangeSummary() as summary:
                covered = self._covered(summary, entry.seq)
                if not self._replace(covered, Stand("summary", entry.seq)):
                    self._show(entry)
            case _:
                self._show(entry)

    def _show(self, entry: Entry) -> None:
        self.shown[entry.seq] = None
        if path := entry.path:
            self.at_path.setdefault(path, []).append(entry.seq)
        if alias := entry.alias:
            self.at_alias[alias] = entry.seq
        self.in_turn.setdefault(entry.turn_id, []).append(entry.seq)

    def _at(self, path: str) -> list[int]:
        seqs = [self.at_alias[path]] if path in self.at_alias else self.at_path.pop(path, [])
        here = [seq for seq in seqs if self._can_be_hidden(seq)]
        if here:
            self.at_path[path] = here[:1]
        return here

    def _can_be_hidden(self, seq: int) -> bool:
        if seq not in self.shown:
            return False
        stand = self.shown[seq]
        return stand is None or stand.kind == "hidden"

    def _between(self, first: int, last: int) -> list[int]:
        if last - first < len(self.shown):
            return [seq for seq in range(first, last + 1) if seq in self.shown]
        return [seq for seq in self.shown if first <= seq <= last]

    def _covered(self, summary: RangeSummary, seq: int) -> list[int]:
        if summary.last_seq:
            return self._between(max(1, summary.first_seq), min(summary.last_seq, seq - 1))
        covered: list[int] = []
        for turn in dict.fromkeys(summary.covered_turn_ids):
            here = self.in_turn[turn] = [seq for seq in self.in_turn.get(turn, ()) if seq in self.shown]
            covered += here
        return sorted(covered)

    def _replace(self, seqs: Iterable[int], stand: Stand | None, by: int = 0) -> bool:
        """Takes the entries out of sight and puts the stand where the first was; says whether there were any."""
        first = 0
        for seq in seqs:
            self.gone[seq] = stand.by if stand else by
            if not first and stand:
                self.shown[seq] = stand
            else:
                del self.shown[seq]
            first = first or seq
        return bool(first)
