"""The view of visible entries and of the stubs that replace hidden, pruned and summarized ones."""

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import ClassVar, Final, Literal

import msgspec

from timeloom.core.blocks import BLOCK_CLASSES, AnyBlock, Hidden, Pinned, Pruned, RangeSummary, ToolCall, TurnStarted
from timeloom.core.ids import CallId, TurnId
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds, for_all_blocks, for_blocks
from timeloom.core.view.context.seq_runs import SeqRuns
from timeloom.core.view.paths import NUMBERED, PathsView

StubKind = Literal["hidden", "pruned", "summary"]

_OF_CALLS: Final = [cls for cls in BLOCK_CLASSES if "tool_call_id" in cls.__struct_fields__]


class Stub(msgspec.Struct, frozen=True, gc=False):
    """A stub in place of entries: `text` as recorded, or for a summary the text of the entry `by`."""

    kind: StubKind
    by: int
    text: str = ""


class Pin(msgspec.Struct, frozen=True, gc=False):
    """A pin: the entry that set it, the entries that it keeps, and their recorded tokens."""

    by: int
    seqs: tuple[int, ...]
    tokens: int


class VisibleView(BlockView, msgspec.Struct):
    """The visible entries in timeline order, each as itself or with its stub, and the entries at each path.

    Most entries are visible and follow one another, so they are kept as runs.
    """

    runs: SeqRuns = msgspec.field(default_factory=SeqRuns)
    """The visible entries."""
    stubs: dict[int, Stub] = {}
    """The visible entries that a stub replaces."""
    gone: dict[int, int] = {}
    """Each hidden or replaced entry, with the newest entry that hid it."""

    paths: PathsView = msgspec.field(default_factory=PathsView)
    at_alias: dict[str, int] = {}
    hidden_at: dict[str, tuple[int, int]] = {}
    """Each path that was hidden: the entry with the stub, and the number of entries at the path by then."""
    in_turn: dict[TurnId, SeqRuns] = {}
    """The entries of each turn that were visible when they were added."""
    inner: dict[CallId, int] = {}
    """The nested calls of the newest turn, each with its call entry."""
    summaries: dict[str, tuple[int, int]] = {}
    """Each path of a summary that replaces entries, with its seq and the position of its stub."""
    bare_summaries: dict[str, int] = {}
    """Each path of a summary that replaces nothing, with its newest seq."""
    pins: dict[str, Pin] = {}
    """The pins by path, oldest first."""
    pinned: dict[int, str] = {}
    """Each pinned entry, with the path of its pin."""
    kept: dict[int, Literal["pruned", "summary"]] = {}
    """Each entry that a pin kept when the entries around it were removed, with the newest kind of stub there."""

    @property
    def shown(self) -> "ShownEntries":
        """The visible entries in order, each with None or its stub."""
        return ShownEntries(self)

    def copy_shown(self) -> "ShownEntries":
        """Return the visible entries as they are now; they do not follow the view."""
        return ShownEntries(VisibleView(runs=self.runs.copy(), stubs=self.stubs.copy()))

    @property
    def at_path(self) -> Mapping[str, Sequence[int]]:
        """The entries at each path, oldest first, visible or not."""
        return self.paths.seqs

    def seqs_from(self, seq: int) -> list[int]:
        """Return the visible entries from that one on, in order."""
        return self.runs.between(seq, self.runs.last)

    def seqs_between(self, first: int, last: int) -> list[int]:
        """Return the visible entries of the range, in order."""
        return self.runs.between(first, last)

    def seqs_in_turn(self, turn: TurnId) -> list[int]:
        """Return the visible entries of the turn, in order."""
        of_turn = self.in_turn.get(turn)
        return [seq for first, last in of_turn.pairs() for seq in self.runs.between(first, last)] if of_turn else []

    @property
    def pinned_tokens(self) -> int:
        """The recorded tokens of all pins."""
        return sum(pin.tokens for pin in self.pins.values())

    def pinnable_at(self, path: str) -> list[int]:
        """Return the entries that a pin of this path keeps: those that are shown as themselves, but no summary."""
        if path.startswith("su:"):
            return []
        seqs = [self.at_alias[path]] if path in self.at_alias else self.paths.seqs.get(path, ())
        return [seq for seq in seqs if self.shown.get(seq, self) is None]

    def pin_path(self, path: str) -> str:
        """Return the path of the pin that keeps the blocks at this path; empty if they are not pinned."""
        if path in self.pins:
            return path
        return self.pinned.get(self.at_alias.get(path, 0), "")

    def _pin(self, path: str, by: int, tokens: int) -> None:
        seqs = [seq for seq in self.pinnable_at(path) if seq not in self.pinned]
        if seqs:
            self.pins[path] = Pin(by, tuple(seqs), tokens)
            self.pinned.update(dict.fromkeys(seqs, path))

    def _unpin(self, path: str) -> None:
        if pin := self.pins.pop(path, None):
            for seq in pin.seqs:
                self.pinned.pop(seq, None)

    def _without_pinned(self, seqs: list[int], kind: Literal["pruned", "summary"]) -> list[int]:
        """Return the entries that are not pinned, and note the kind of stub around the others."""
        if not self.pinned:
            return seqs
        self.kept.update((seq, kind) for seq in seqs if seq in self.pinned)
        return [seq for seq in seqs if seq not in self.pinned]

    def _hide(self, entry: Entry, block: Hidden) -> None:
        self.paths.add(entry)
        self._replace(self._hide_at(block.target), Stub("hidden", entry.seq, block.replacement), entry.seq)

    def _prune(self, entry: Entry, block: Pruned) -> None:
        self.paths.add(entry)
        for cut in block.cuts:
            stub = Stub("pruned", entry.seq, cut.text) if cut.text else None
            covered = self._without_pinned(self.runs.between(cut.first_seq, cut.last_seq), "pruned")
            self._replace(covered, stub, entry.seq)

    def _add_pin(self, entry: Entry, block: Pinned) -> None:
        self._unpin(block.target)
        if block.pinned:
            self._pin(block.target, entry.seq, block.tokens)
        self._show(entry, block)

    def _begin_turn(self, entry: Entry, block: TurnStarted) -> None:
        self.inner = {}
        self._show(entry, block)

    def _add_call(self, entry: Entry, block: ToolCall) -> None:
        if block.by is not None:
            self.inner[block.tool_call_id] = entry.seq
        self._add_of_call(entry, block)

    def _add_of_call(self, entry: Entry, block: AnyBlock) -> None:
        # Nested calls and their results are for the program only; the report of its run names their paths.
        call_id: CallId | None = getattr(block, "tool_call_id", None) if self.inner else None
        if call_id and call_id in self.inner:
            self.gone[entry.seq] = self.inner[call_id]
            self.paths.add(entry)
        else:
            self._show(entry, block)

    def _show_numbered(self, entry: Entry, block: AnyBlock) -> None:
        self._show(entry, block)
        self.paths.aliases[entry.alias] = self.at_alias[entry.alias] = entry.seq

    def _show(self, entry: Entry, _: AnyBlock) -> None:
        self.paths.add_path(entry)
        seq, turn = entry.seq, entry.turn_id
        self.runs.append(seq)
        in_turn = self.in_turn.get(turn)
        if in_turn is None:
            self.in_turn[turn] = SeqRuns([seq], [seq])
        else:
            in_turn.append(seq)

    def _add_summary(self, entry: Entry, block: RangeSummary) -> None:
        covered = self._without_pinned(self._covered_seqs(block), "summary")
        if not covered:
            self._show_numbered(entry, block)
            self.bare_summaries[entry.path] = entry.seq
            self.summaries.pop(entry.path, None)
            self.summaries.pop(entry.alias, None)
            return
        self.paths.add(entry)
        self._replace(covered, Stub("summary", entry.seq), entry.seq)
        self.summaries[entry.path] = self.summaries[entry.alias] = (entry.seq, covered[0])

    def _hide_at(self, path: str) -> list[int]:
        """Return the entries that hiding the path removes, and remember them."""
        if path in self.summaries:
            by, place = self.summaries[path]
            stub = self.stubs.get(place)
            return [place] if stub and stub.by == by else []
        if path in self.at_alias:
            return [seq for seq in (self.at_alias[path],) if self._can_be_hidden(seq)]
        here = [seq for seq in self._hidable_at(path) if self._can_be_hidden(seq)]
        if here:
            self.hidden_at[path] = here[0], len(self.paths.seqs.get(path, ()))
        return here

    def _hidable_at(self, path: str) -> Sequence[int]:
        """Return the entries at the path without those that an earlier hide removed."""
        if path in self.bare_summaries:
            return (self.bare_summaries[path],)
        seqs = self.paths.seqs.get(path, ())
        if path not in self.hidden_at:
            return seqs
        first, count = self.hidden_at[path]
        return (first, *seqs[count:])

    def _can_be_hidden(self, seq: int) -> bool:
        stub = self.stubs.get(seq)
        return seq in self.runs and (stub is None or stub.kind == "hidden")

    def _covered_seqs(self, summary: RangeSummary) -> list[int]:
        if summary.last_seq:
            return self.runs.between(summary.first_seq, summary.last_seq)
        turns = dict.fromkeys(summary.covered_turn_ids)
        return sorted(seq for turn in turns for seq in self.seqs_in_turn(turn))

    def _replace(self, seqs: list[int], stub: Stub | None, by: int) -> None:
        """Hide the entries and put the stub, if there is one, at the first of them."""
        for seq in seqs:
            self.gone[seq] = by
            self.stubs.pop(seq, None)
            self.kept.pop(seq, None)
            if path := self.pinned.get(seq):
                # Hiding is the stronger wish.
                self._unpin(path)
        if stub and seqs:
            self.stubs[seqs[0]] = stub
        self.runs.remove(seqs[1:] if stub else seqs)

    folds: ClassVar[Folds] = {
        **for_all_blocks(_show),
        **for_blocks(NUMBERED, _show_numbered),
        **for_blocks(_OF_CALLS, _add_of_call),
        TurnStarted: _begin_turn,
        ToolCall: _add_call,
        Hidden: _hide,
        Pinned: _add_pin,
        Pruned: _prune,
        RangeSummary: _add_summary,
    }


class ShownEntries(Mapping[int, Stub | None]):
    """The visible entries of a view in order, each with None or its stub; it follows the view."""

    __slots__ = ("_view",)

    def __init__(self, view: VisibleView) -> None:
        self._view = view

    def __getitem__(self, seq: int) -> Stub | None:
        if seq not in self._view.runs:
            raise KeyError(seq)
        return self._view.stubs.get(seq)

    def __contains__(self, seq: object) -> bool:
        return isinstance(seq, int) and seq in self._view.runs

    def __iter__(self) -> Iterator[int]:
        return iter(self._view.runs)

    def items(self) -> ItemsView[int, Stub | None]:
        """Return the entries with their stubs."""
        return _ShownItems(self)

    def stub_at(self, seq: int) -> Stub | None:
        """Return the stub at a visible entry."""
        return self._view.stubs.get(seq)

    def __len__(self) -> int:
        return len(self._view.runs)

    def __repr__(self) -> str:
        return repr(dict(self))


class _ShownItems(ItemsView[int, Stub | None]):
    """The visible entries with their stubs; walking them needs no search."""

    __slots__ = ()
    _mapping: ShownEntries

    def __iter__(self) -> Iterator[tuple[int, Stub | None]]:
        stub_at = self._mapping.stub_at
        for seq in self._mapping:
            yield seq, stub_at(seq)
