"""Ends a turn that a fork or a stopped re-run cut in the middle, and finds the entries where a fork may restart.

A fork copies a conversation up to an entry. In the middle of a turn, resuming would repeat calls that had begun and
execute decisions that had not. The fork therefore ends the turn. Nothing runs twice, the receipts say so, and nothing
happens until the next message.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from timeloom.core.blocks import (
    AnyBlock,
    ModelCalled,
    Note,
    Notice,
    ResultContent,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    SourcesAdded,
    TurnEnded,
    TurnStarted,
    make_tool_error,
)
from timeloom.core.ids import CallId
from timeloom.core.timeline import Entry
from timeloom.core.view.calls import CallEntries, CallsView
from timeloom.core.view.progress import ProgressView

_TURN_FORKED: Final = "the conversation was forked here, in the middle of the turn"
_CALL_FORKED: Final = (
    "the conversation was forked while this call was under way: what it came to, and whatever it has done, "
    "belongs to the conversation that this one was forked from; here it is not run"
)
_RESULT_FORKED: Final = "the conversation was forked in the middle of this result: the rest of it is not here"
_RERUN_STOPPED: Final = (
    "the re-run was broken off while this call was under way: nobody knows what it came to, and it is not run"
)


def end_forked_turn(turn: Sequence[Entry], after: Entry | None) -> list[AnyBlock]:
    """Return the blocks that end a turn cut after these entries; empty if no turn is open.

    `after` is the first entry after the cut, if there is one.
    """
    calls = _open_turn_calls(turn)
    if calls is None:
        return []
    blocks = [_make_receipt(call.tool_call_id, "call_cut", _CALL_FORKED) for call in calls if _is_open(call)]
    split_call = _result_call_id(after)
    blocks += [
        _make_receipt(call.tool_call_id, "call_cut", _RESULT_FORKED)
        for call in calls
        if call.receipt_seqs and call.tool_call_id == split_call
    ]
    return [*blocks, TurnEnded(reason="cancelled", text=_TURN_FORKED)]


def end_stopped_rerun(turn: Sequence[Entry], why: str) -> list[AnyBlock]:
    """Return the blocks that end the turn of a stopped re-run; empty if no turn is open.

    Unlike in a fork, a call without a result was begun here and may have been executed.
    """
    calls = _open_turn_calls(turn)
    if calls is None:
        return []
    blocks = [_make_receipt(call.tool_call_id, "tool_interrupted", _RERUN_STOPPED) for call in calls if _is_open(call)]
    return [*blocks, TurnEnded(reason="cancelled", text=why)]


def is_rerun(turn: Sequence[Entry]) -> bool:
    """Whether these entries belong to a turn of a re-run."""
    return any(isinstance(entry.block, TurnStarted) and entry.block.rerun for entry in turn)


def find_restart_seq(turn: Sequence[Entry], after: Entry | None) -> int:
    """Return the last entry of the turn after which no work is open, or the model is about to be asked.

    If there is none, return the entry before the turn. `after` is the entry that follows the turn's entries.
    """
    progress = ProgressView()
    restart_seq = turn[0].seq - 1
    for entry, following in pairwise([*turn, after]):
        assert entry is not None
        progress.add(entry)
        if not progress.running or (following and _starts_request(following)):
            restart_seq = entry.seq
    return restart_seq


def _open_turn_calls(turn: Sequence[Entry]) -> list[CallEntries] | None:
    """Return the calls of the turn, or None if the turn is not open."""
    progress, calls = ProgressView(), CallsView()
    for entry in turn:
        progress.add(entry)
        calls.add(entry)
    if not progress.running:
        return None
    return [call for key, call in calls.calls.items() if key.startswith(f"{progress.turn_id}.")]


def _is_open(call: CallEntries) -> bool:
    return bool(call.call_seq) and not call.receipt_seqs


def _starts_request(entry: Entry) -> bool:
    match entry.block:
        case RoundStarted() | ModelCalled(purpose="decision"):
            return True
        case _:
            return False


def _result_call_id(entry: Entry | None) -> CallId | None:
    """Return the call that the entry is a result of."""
    match entry and entry.block:
        case ResultDigest() | ResultStatus() | ResultContent() | Note() | Notice() | SourcesAdded() as block:
            return block.tool_call_id
        case _:
            return None


def _make_receipt(call_id: CallId, code: str, text: str) -> AnyBlock:
    return ResultStatus(tool_call_id=call_id, text=text, error=make_tool_error(code, text))
