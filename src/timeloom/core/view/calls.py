"""The view of tool calls and their entries: notes, code, notices, receipts and content."""

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


class CallEntries(msgspec.Struct, gc=False):
    """The entries of one call; without a receipt it is unknown whether the call ran."""

    tool_call_id: CallId
    tool_id: str = ""
    traits: ToolTraits | None = None
    """The traits that the call recorded."""
    call_seq: int | None = None
    notes_seq: int | None = None
    code_seq: int | None = None
    notice_seqs: list[int] = []
    receipt_seqs: list[int] = []
    content_seqs: list[int] = []
    failed: bool = False
    approved: bool | None = None
    inner: list[CallId] = []
    """The nested calls that this call made, as a program does."""


class CallsView(msgspec.Struct):
    """All calls by turn and call id, in order of first appearance, and the calls without a receipt."""

    calls: dict[str, CallEntries] = {}
    open: dict[str, int] = {}

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        match entry.block:
            case ToolCall(tool_call_id=call_id, tool_id=tool_id, by=outer, traits=traits):
                call = self._call(entry, call_id)
                if outer:
                    self._call(entry, outer).inner.append(call_id)
                call.tool_id, call.traits, call.call_seq = tool_id, traits, entry.seq
                if not call.receipt_seqs:
                    self.open[_key(entry.turn_id, call_id)] = entry.seq
            case Notes(tool_call_id=call_id):
                self._call(entry, call_id).notes_seq = entry.seq
            case ToolCode(tool_call_id=call_id):
                self._call(entry, call_id).code_seq = entry.seq
            case Notice(tool_call_id=call_id) if call_id:
                self._call(entry, call_id).notice_seqs.append(entry.seq)
            case ResultDigest() | ResultStatus() | ResultContent() as result:
                self._add_result(entry, result)
            case ApprovalDecided(tool_call_id=call_id, approved=approved):
                self._call(entry, call_id).approved = approved
            case _:
                pass

    def get(self, turn: TurnId, call_id: CallId) -> CallEntries | None:
        """Return the call of that turn, or None if it is unknown."""
        return self.calls.get(_key(turn, call_id))

    def _add_result(self, entry: Entry, result: ResultDigest | ResultStatus | ResultContent) -> None:
        call = self._call(entry, result.tool_call_id)
        if isinstance(result, ResultContent):
            call.content_seqs.append(entry.seq)
            return
        error = result.error if isinstance(result, ResultStatus) else result.digest.error
        call.failed = call.failed or error is not None
        call.receipt_seqs.append(entry.seq)
        self.open.pop(_key(entry.turn_id, result.tool_call_id), None)

    def _call(self, entry: Entry, call_id: CallId) -> CallEntries:
        key = _key(entry.turn_id, call_id)
        if key not in self.calls:
            self.calls[key] = CallEntries(call_id)
        return self.calls[key]


def _key(turn: TurnId, call_id: CallId) -> str:
    return f"{turn}.{call_id}"
