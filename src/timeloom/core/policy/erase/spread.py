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
    ChannelText,
    CompactionEnded,
    CompactionRequested,
    Completion,
    ContentBlock,
    Cut,
    Gate,
    Hidden,
    ModelAnswered,
    ModelCalled,
    Note,
    Notes,
    Pinned,
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
from timeloom.core.blocks.redact import redact_block, redact_cuts, redact_request, redact_rows
from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths import TurnIndexPath
from timeloom.core.policy.erase.provenance import Provenance
from timeloom.core.timeline import Entry
from timeloom.core.view.context.visible import VisibleView

EraseReason = Literal[
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

TAIL_BLOCKS: Final = (SourcesAdded, PlanRecorded)
"""Blocks whose text appears in the uncached tail of requests, whether or not the block itself is visible."""

_BOOKKEEPING: Final = (
    ModelCalled,
    ModelAnswered,
    Hidden,
    Pruned,
    CompactionRequested,
    CompactionEnded,
    Pinned,
    RangeSummary,
    WorkingSummary,
    Titled,
    Gate,
)
"""Blocks that no working summary is made from."""

_PARSED_FROM_REPLY: Final = (
    Thinking,
    ChannelText,
    Notes,
    ToolCode,
    ToolCall,
    Completion,
    ReactCompletion,
    WorkingSummary,
    PlanAcknowledged,
)
"""Blocks that are parsed from a model's reply."""


class EraseTargets(msgspec.Struct, frozen=True):
    """The erase request: entries by seq, and rows of the sources pool by id."""

    seqs: frozenset[int] = frozenset()
    sids: frozenset[int] = frozenset()


def find_entries_to_erase(
    entries: Sequence[Entry], targets: EraseTargets, quoting: Iterable[int] = ()
) -> dict[int, EraseReason]:
    """Return every entry that must be erased with the targets, in order, each with its reason.

    `quoting` lists entries that contain the same text.
    """
    return _ErasureClosure(entries, targets).compute(quoting)


def redact_entry(entry: Entry, targets: EraseTargets, erased_seqs: Sequence[int]) -> Entry:
    """Return the entry after erasure.

    `erased_seqs` lists all erased entries in order. Content of the entry that does not depend on them stays.
    """
    match entry.block:
        case SourcesAdded() as block if entry.seq not in targets.seqs:
            after = redact_rows(block, targets.sids)
        case Pruned() as block if entry.seq not in targets.seqs:
            after = redact_cuts(block, erased_seqs)
        case ModelCalled() as block if entry.seq not in targets.seqs:
            after = redact_request(block, erased_seqs[0])
        case block:
            after = redact_block(block)
    return replace(entry, block=_with_turn_index(after, entry.turn_id), original="")


def _with_turn_index(block: AnyBlock, turn: TurnId) -> AnyBlock:
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


class _ErasureClosure:
    """Computes the closure: starts at the targets and follows all rules from each added entry."""

    def __init__(self, entries: Sequence[Entry], targets: EraseTargets) -> None:
        self._entries = entries
        self._targets = targets
        self._provenance = Provenance(entries)
        self._reasons: dict[int, EraseReason] = {}
        self._pending: list[int] = []

    def compute(self, quoting: Iterable[int]) -> dict[int, EraseReason]:
        """Return all entries to erase, in order, each with its reason."""
        self._add(self._targets.seqs, "named")
        self._add(self._provenance.source_entries(self._targets.sids), "named")
        self._add(quoting, "quotes it")
        while True:
            while self._pending:
                self._follow(self._entries[self._pending.pop() - 1])
            before = len(self._reasons)
            self._add(self._requests_showing(), "request that showed it")
            if len(self._reasons) == before:
                return dict(sorted(self._reasons.items()))

    def _add(self, seqs: Iterable[int], why: EraseReason) -> None:
        for seq in seqs:
            if seq not in self._reasons and not _has_nothing_to_erase(self._entries[seq - 1]):
                self._reasons[seq] = why
                self._pending.append(seq)

    def _follow(self, entry: Entry) -> None:
        self._follow_origins(entry)
        block, known = entry.block, self._provenance
        self._add(known.reads_of(entry, self._targets.sids), "shows it again")
        self._add(known.replacements_of(entry), "stands in its place")
        if not isinstance(block, ModelCalled | ModelAnswered):
            self._add(known.summaries_of(entry), "sums it up")
        if not isinstance(block, _BOOKKEEPING):
            self._add(known.working_summaries[entry.turn_id], "sums it up")
        if entry.seq in known.title_inputs:
            self._add(known.titles, "title made from it")

    def _follow_origins(self, entry: Entry) -> None:
        """Add the entries from which this entry was made, if they contain the same text."""
        block, known = entry.block, self._provenance
        if isinstance(block, _PARSED_FROM_REPLY):
            self._add(known.reply_before(entry), "reply it came from")
        match block:
            case Note():
                self._add(known.call_before(entry), "call it came from")
            case CompactionRequested(message_id=message):
                self._add(known.call_with_results(entry.turn_id, CallId(message)), "call it came from")
            case PlanRecorded(snapshot=snapshot):
                self._add(known.call_before(entry), "call it came from")
                self._add(known.plans[snapshot.plan_id], "shows it again")
            case ToolCall(tool_call_id=call):
                self._add(known.call_repeats[entry.turn_id, call], "shows it again")
            case Titled():
                self._add(known.title_requests, "request that showed it")
            case SourcesAdded(tool_call_id=str() as call):
                self._add(known.results[entry.turn_id, call], "result it came with")
            case ContentBlock():
                self._add(known.content_origins(entry, block), "call it came from")
            case _:
                pass

    def _requests_showing(self) -> Iterator[int]:
        """Yield the requests whose prompt showed an entry to erase."""
        visible, shown_seqs, in_tails = VisibleView(), deque[int](), False
        for entry in self._entries:
            if isinstance(entry.block, ModelCalled) and entry.block.purpose == "decision":
                # An entry that is no longer visible never becomes visible again.
                while shown_seqs and not self._is_shown(shown_seqs[0], visible):
                    shown_seqs.popleft()
                if in_tails or shown_seqs:
                    yield entry.seq
            visible.add(entry)
            if entry.seq in self._reasons and not isinstance(entry.block, ModelCalled):
                shown_seqs.append(entry.seq)
                in_tails = in_tails or isinstance(entry.block, TAIL_BLOCKS)

    def _is_shown(self, seq: int, visible: VisibleView) -> bool:
        """Whether a prompt shows the entry, or the stub that the entry created."""
        if isinstance(self._entries[seq - 1].block, Hidden | Pruned | RangeSummary):
            return seq in visible.shown or any(stub.by == seq for stub in visible.stubs.values())
        return seq in visible.shown and visible.shown[seq] is None


def _has_nothing_to_erase(entry: Entry) -> bool:
    """Whether the entry contains nothing that can be erased."""
    return not entry.block.erased and redact_block(entry.block) is entry.block
