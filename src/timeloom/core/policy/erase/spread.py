"""Finds all entries that must be erased together with the requested ones.

The rules follow where an entry comes from, not its text. They therefore find an excerpt of three words as well as a
copy.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from timeloom.core.blocks import (
    AnyBlock,
    Completion,
    ContentBlock,
    Cut,
    Gate,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Note,
    Notes,
    PlanAcknowledged,
    PlanRecorded,
    Pruned,
    RangeSummary,
    ReactCompletion,
    SourcesAdded,
    Thinking,
    Titled,
    ToolCall,
    ToolCode,
    WorkingSummary,
)
from timeloom.core.blocks.block import ERASED
from timeloom.core.blocks.redact import erased, without_cuts, without_request, without_rows
from timeloom.core.ids import TurnId
from timeloom.core.paths import TurnIndexPath
from timeloom.core.policy.erase.provenance import Provenance
from timeloom.core.timeline import Entry
from timeloom.core.view.context.visible import VisibleView

Why = Literal[
    "named",
    "quotes it",
    "shows it again",
    "sums it up",
    "stands in its place",
    "title made from it",
    "request that showed it",
    "reply it came from",
    "call it came from",
    "result it came with",
]
"""The reason why an entry is erased."""

SHOWN_IN_TAILS: Final = (SourcesAdded, PlanRecorded)
"""Blocks whose text appears in the uncached tail of requests, whether or not the block itself is visible."""

_BOOKKEEPING: Final = (ModelCalled, ModelAnswered, Hidden, Pruned, RangeSummary, WorkingSummary, Titled, Gate)
"""Blocks that no working summary is made from."""

_WRITTEN: Final = (Thinking, Notes, ToolCode, ToolCall, Completion, ReactCompletion, WorkingSummary, PlanAcknowledged)
"""Blocks that are parsed from a model's reply."""


class Targets(msgspec.Struct, frozen=True):
    """The erase request: entries by seq, and rows of the sources pool by id."""

    seqs: frozenset[int] = frozenset()
    sids: frozenset[int] = frozenset()


def spread(entries: Sequence[Entry], targets: Targets, quoting: Iterable[int] = ()) -> dict[int, Why]:
    """Return every entry that must be erased with the targets, in order, each with its reason.

    `quoting` lists entries that contain the same text.
    """
    return _Spreading(entries, targets).all(quoting)


def erased_entry(entry: Entry, targets: Targets, taken: Sequence[int]) -> Entry:
    """Return the entry after erasure.

    `erased_seqs` lists all erased entries in order. Content of the entry that does not depend on them stays.
    """
    match entry.block:
        case SourcesAdded() as block if entry.seq not in targets.seqs:
            after = without_rows(block, targets.sids)
        case Pruned() as block if entry.seq not in targets.seqs:
            after = without_cuts(block, taken)
        case ModelCalled() as block if entry.seq not in targets.seqs:
            after = without_request(block, taken[0])
        case block:
            after = erased(block)
    return replace(entry, block=_leading_on(after, entry.turn_id), original="")


def _leading_on(block: AnyBlock, turn: TurnId) -> AnyBlock:
    """Return the block with the path of its turn's index, if the block may replace the beginning of that turn.

    The header of the turn is then erased too, and later entries of the turn can only be found through the index.
    """
    index = f", {TurnIndexPath(turn)}" if turn else ""
    match block:
        case RangeSummary(text=str() as text, last_seq=last) if last:
            return replace(block, text=text + index)
        case Pruned(cuts=(*others, last)) if _is_erased_card(last) and not last.text.endswith(index):
            return replace(block, cuts=(*others, replace(last, text=last.text + index)))
        case _:
            return block


def _is_erased_card(cut: Cut) -> bool:
    return cut.first_seq < cut.last_seq and cut.text.startswith(ERASED)


class _Spreading:
    """Computes the closure: starts at the targets and follows all rules from each added entry."""

    def __init__(self, entries: Sequence[Entry], targets: Targets) -> None:
        self._entries = entries
        self._targets = targets
        self._known = Provenance(entries)
        self._taken: dict[int, Why] = {}
        self._open: list[int] = []

    def all(self, quoting: Iterable[int]) -> dict[int, Why]:
        """Return all entries to erase, in order, each with its reason."""
        self._take(self._targets.seqs, "named")
        self._take(self._known.with_sources(self._targets.sids), "named")
        self._take(quoting, "quotes it")
        while True:
            while self._open:
                self._follow(self._entries[self._open.pop() - 1])
            before = len(self._taken)
            self._take(self._requests(), "request that showed it")
            if len(self._taken) == before:
                return dict(sorted(self._taken.items()))

    def _take(self, seqs: Iterable[int], why: Why) -> None:
        for seq in seqs:
            if seq not in self._taken and not _is_kept(self._entries[seq - 1]):
                self._taken[seq] = why
                self._open.append(seq)

    def _follow(self, entry: Entry) -> None:
        self._follow_back(entry)
        block, known = entry.block, self._known
        self._take(known.shown_again(entry, self._targets.sids), "shows it again")
        self._take(known.in_place_of(entry), "stands in its place")
        if not isinstance(block, ModelCalled | ModelAnswered):
            self._take(known.summed_up(entry), "sums it up")
        if not isinstance(block, _BOOKKEEPING):
            self._take(known.recaps[entry.turn_id], "sums it up")
        if entry.seq in known.opening:
            self._take(known.titles, "title made from it")

    def _follow_back(self, entry: Entry) -> None:
        """Add the entries from which this entry was made, if they contain the same text."""
        block, known = entry.block, self._known
        if isinstance(block, _WRITTEN):
            self._take(known.reply_before(entry), "reply it came from")
        match block:
            case Note():
                self._take(known.call_before(entry), "call it came from")
            case PlanRecorded(snapshot=snapshot):
                self._take(known.call_before(entry), "call it came from")
                self._take(known.plans[snapshot.plan_id], "shows it again")
            case ToolCall(tool_call_id=call):
                self._take(known.asides[entry.turn_id, call], "shows it again")
            case Titled():
                self._take(known.titling, "request that showed it")
            case SourcesAdded(tool_call_id=str() as call):
                self._take(known.results[entry.turn_id, call], "result it came with")
            case ContentBlock():
                self._take(known.beside(entry, block), "call it came from")
            case _:
                pass

    def _requests(self) -> Iterator[int]:
        """Yield the requests whose prompt showed an entry to erase."""
        visible, taken, in_tails = VisibleView(), deque[int](), False
        for entry in self._entries:
            if isinstance(entry.block, ModelCalled) and entry.block.purpose == "decision":
                # An entry that is no longer visible never becomes visible again.
                while taken and not self._is_shown(taken[0], visible):
                    taken.popleft()
                if in_tails or taken:
                    yield entry.seq
            visible.add(entry)
            if entry.seq in self._taken and not isinstance(entry.block, ModelCalled):
                taken.append(entry.seq)
                in_tails = in_tails or isinstance(entry.block, SHOWN_IN_TAILS)

    def _is_shown(self, seq: int, visible: VisibleView) -> bool:
        """Whether a prompt shows the entry, or the stub that the entry created."""
        if isinstance(self._entries[seq - 1].block, Hidden | Pruned | RangeSummary):
            return seq in visible.shown or any(stand and stand.by == seq for stand in visible.shown.values())
        return seq in visible.shown and visible.shown[seq] is None


def _is_kept(entry: Entry) -> bool:
    """Whether the entry contains nothing that can be erased."""
    return not entry.block.erased and erased(entry.block) is entry.block
