"""The view of visible entries and of the stubs that replace hidden, pruned and summarized ones."""

from bisect import bisect_left, bisect_right
from typing import Literal

import msgspec

from timeloom.core.blocks import Hidden, Pruned, RangeSummary, ToolCall, TurnStarted
from timeloom.core.ids import CallId, TurnId
from timeloom.core.timeline import Entry

StubKind = Literal["hidden", "pruned", "summary"]


class Stub(msgspec.Struct, frozen=True, gc=False):
    """A stub in place of entries: `text` as recorded, or for a summary the text of the entry `by`."""

    kind: StubKind
    by: int
    text: str = ""


class VisibleView(msgspec.Struct):
    """The visible entries in timeline order, each as itself (None) or with its stub."""

    shown: dict[int, Stub | None] = {}
    order: list[int] = []
    """The keys of `shown` as a sorted list, for range searches."""

    gone: dict[int, int] = {}
    """Each hidden or replaced entry, with the newest entry that hid it."""

    at_path: dict[str, list[int]] = {}
    at_alias: dict[str, int] = {}
    in_turn: dict[TurnId, list[int]] = {}
    inner: dict[CallId, int] = {}
    """The nested calls of the newest turn, each with its call entry."""
    summaries: dict[str, tuple[int, int]] = {}
    """Each path of a summary that replaces entries, with its seq and the position of its stub."""

    def add(self, entry: Entry) -> None:
        """Fold in the next entry; the cost is linear in the entries that it shows or hides."""
        match entry.block:
            case Hidden(target=target, replacement=text):
                self._replace(self._hidable_at(target), Stub("hidden", entry.seq, text), entry.seq)
            case Pruned(cuts=cuts):
                for cut in cuts:
                    stub = Stub("pruned", entry.seq, cut.text) if cut.text else None
                    self._replace(self._seqs_between(cut.first_seq, cut.last_seq), stub, entry.seq)
            case RangeSummary() as summary:
                self._add_summary(entry, self._covered_seqs(summary))
            case _:
                self._add(entry)

    def _add(self, entry: Entry) -> None:
        match entry.block:
            case TurnStarted():
                self.inner = {}
            case ToolCall(tool_call_id=call_id, by=str()):
                self.inner[call_id] = entry.seq
            case _:
                pass
        # Nested calls and their results are for the program only; the report of its run names their paths.
        call_id: CallId | None = getattr(entry.block, "tool_call_id", None)
        if call_id and call_id in self.inner:
            self.gone[entry.seq] = self.inner[call_id]
        else:
            self._show(entry)

    def _show(self, entry: Entry) -> None:
        self.shown[entry.seq] = None
        self.order.append(entry.seq)
        if path := entry.path:
            self.at_path.setdefault(path, []).append(entry.seq)
        if alias := entry.alias:
            self.at_alias[alias] = entry.seq
        self.in_turn.setdefault(entry.turn_id, []).append(entry.seq)

    def _add_summary(self, entry: Entry, covered: list[int]) -> None:
        if not covered:
            self._show(entry)
            self.at_path[entry.path] = [entry.seq]
            self.summaries.pop(entry.path, None)
            self.summaries.pop(entry.alias, None)
            return
        self._replace(covered, Stub("summary", entry.seq), entry.seq)
        self.summaries[entry.path] = self.summaries[entry.alias] = (entry.seq, covered[0])

    def _hidable_at(self, path: str) -> list[int]:
        if path in self.summaries:
            by, place = self.summaries[path]
            stub = self.shown.get(place)
            return [place] if stub and stub.by == by else []
        seqs = [self.at_alias[path]] if path in self.at_alias else self.at_path.pop(path, [])
        here = [seq for seq in seqs if self._can_be_hidden(seq)]
        if here:
            self.at_path[path] = here[:1]
        return here

    def _can_be_hidden(self, seq: int) -> bool:
        if seq not in self.shown:
            return False
        stub = self.shown[seq]
        return stub is None or stub.kind == "hidden"

    def _seqs_between(self, first: int, last: int) -> list[int]:
        return self.order[bisect_left(self.order, first) : bisect_right(self.order, last)]

    def _covered_seqs(self, summary: RangeSummary) -> list[int]:
        if summary.last_seq:
            return self._seqs_between(summary.first_seq, summary.last_seq)
        covered: list[int] = []
        for turn in dict.fromkeys(summary.covered_turn_ids):
            here = self.in_turn[turn] = [seq for seq in self.in_turn.get(turn, ()) if seq in self.shown]
            covered += here
        return sorted(covered)

    def _replace(self, seqs: list[int], stub: Stub | None, by: int) -> None:
        """Hide the entries and put the stub, if there is one, at the first of them."""
        for seq in seqs:
            self.gone[seq] = by
        removed = seqs[1:] if stub else seqs
        if stub and seqs:
            self.shown[seqs[0]] = stub
        for seq in removed:
            del self.shown[seq]
        self._remove_from_order(removed)

    def _remove_from_order(self, seqs: list[int]) -> None:
        if not seqs:
            return
        first = bisect_left(self.order, seqs[0])
        if self.order[first : first + len(seqs)] == seqs:
            del self.order[first : first + len(seqs)]
            return
        for seq in seqs:
            del self.order[bisect_left(self.order, seq)]
