"""The view of tool calls and their entries: notes, code, notices, receipts and content."""

from typing import ClassVar, Final

import msgspec

from timeloom.core.blocks import (
    ApprovalDecided,
    Notes,
    Notice,
    ResultContent,
    ResultDigest,
    ResultStatus,
    ToolCall,
    ToolCode,
    ToolTraits,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.timeline import Entry
from timeloom.core.view.block_view import BlockView, Folds

OUTCOME_UNKNOWN: Final = "outcome_unknown"
"""The code of the notice that a call may have had its effect although it failed."""


class CallEntries(msgspec.Struct, gc=False):
    """The entries of one call; without a receipt it is unknown whether the call ran."""

    tool_call_id: CallId
    tool_id: str = ""
    traits: ToolTraits | None = None
    """The traits that the call recorded."""
    call_seq: int | None = None
    notes_seq: int | None = None
    code_seq: int | None = None
    notice_seqs: tuple[int, ...] = ()
    receipt_seqs: tuple[int, ...] = ()
    content_seqs: tuple[int, ...] = ()
    failed: bool = False
    approved: bool | None = None
    inner: tuple[CallId, ...] = ()
    """The nested calls that this call made, as a program does."""
    n: int = 0
    """The number of the call in its turn, in the order of the `react.tool.call` blocks; 0 before that block."""


class CallsView(BlockView, msgspec.Struct):
    """All calls by turn and call id, in order of first appearance, and the calls without a receipt."""

    calls: dict[str, CallEntries] = {}
    open: dict[str, int] = {}
    by_number: dict[TurnId, list[CallId]] = {}
    """The ids of each turn's calls; the call with the number 1 comes first."""
    unknown_outcomes: dict[str, CallId] = {}
    """By tool, the last call whose effect is unknown, until a person approves a later call of that tool."""

    def find(self, turn: TurnId, number: int) -> CallId | None:
        """Return the call of that turn with that number, or None if the turn has fewer calls."""
        calls = self.by_number.get(turn, ())
        return calls[number - 1] if 1 <= number <= len(calls) else None

    def get(self, turn: TurnId, call_id: CallId) -> CallEntries | None:
        """Return the call of that turn, or None if it is unknown."""
        return self.calls.get(_key(turn, call_id))

    def _add_call(self, entry: Entry, block: ToolCall) -> None:
        key = _key(entry.turn_id, block.tool_call_id)
        call = self._at(key, block.tool_call_id)
        if block.by:
            self._call(entry, block.by).inner += (block.tool_call_id,)
        call.tool_id, call.traits, call.call_seq = block.tool_id, block.traits, entry.seq
        if not call.n:
            numbered = self.by_number.setdefault(entry.turn_id, [])
            numbered.append(block.tool_call_id)
            call.n = len(numbered)
        if not call.receipt_seqs:
            self.open[key] = entry.seq

    def _add_notes(self, entry: Entry, block: Notes) -> None:
        self._call(entry, block.tool_call_id).notes_seq = entry.seq

    def _add_code(self, entry: Entry, block: ToolCode) -> None:
        self._call(entry, block.tool_call_id).code_seq = entry.seq

    def _add_notice(self, entry: Entry, block: Notice) -> None:
        if block.tool_call_id:
            call = self._call(entry, block.tool_call_id)
            call.notice_seqs += (entry.seq,)
            if block.code == OUTCOME_UNKNOWN:
                self.unknown_outcomes[call.tool_id] = block.tool_call_id

    def _add_content(self, entry: Entry, block: ResultContent) -> None:
        self._call(entry, block.tool_call_id).content_seqs += (entry.seq,)

    def _add_digest(self, entry: Entry, block: ResultDigest) -> None:
        self._add_receipt(entry, block.tool_call_id, failed=block.digest.error is not None)

    def _add_status(self, entry: Entry, block: ResultStatus) -> None:
        self._add_receipt(entry, block.tool_call_id, failed=block.error is not None)

    def _add_decision(self, entry: Entry, block: ApprovalDecided) -> None:
        call = self._call(entry, block.tool_call_id)
        call.approved = block.approved
        if block.approved:
            self.unknown_outcomes.pop(call.tool_id, None)

    def _add_receipt(self, entry: Entry, call_id: CallId, *, failed: bool) -> None:
        key = _key(entry.turn_id, call_id)
        call = self._at(key, call_id)
        call.failed = call.failed or failed
        call.receipt_seqs += (entry.seq,)
        self.open.pop(key, None)

    def _call(self, entry: Entry, call_id: CallId) -> CallEntries:
        return self._at(_key(entry.turn_id, call_id), call_id)

    def _at(self, key: str, call_id: CallId) -> CallEntries:
        call = self.calls.get(key)
        if call is None:
            call = self.calls[key] = CallEntries(call_id)
        return call

    folds: ClassVar[Folds] = {
        ToolCall: _add_call,
        Notes: _add_notes,
        ToolCode: _add_code,
        Notice: _add_notice,
        ResultContent: _add_content,
        ResultDigest: _add_digest,
        ResultStatus: _add_status,
        ApprovalDecided: _add_decision,
    }


def _key(turn: TurnId, call_id: CallId) -> str:
    return f"{turn}.{call_id}"
