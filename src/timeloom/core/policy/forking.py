"""Forking: what ends a turn that a fork cuts in two, and from where a model can be asked anew.

Up to its last entry a fork is what the conversation was, and in the middle of a turn that is no state to go on from: a
call that was begun would be run a second time, and so would what the model decided and nobody had begun yet. So the
fork ends the turn: nothing of it is done twice, its receipts say so, and somebody has to speak before anything happens.
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
    registered_error,
)
from timeloom.core.ids import CallId
from timeloom.core.timeline import Entry
from timeloom.core.view.calls import Call, CallsView
from timeloom.core.view.progress import ProgressView

_ENDED: Final = "the conversation was forked here, in the middle of the turn"
_CUT: Final = (
    "the conversation was forked while this call was under way: what it came to, and whatever it has done, "
    "belongs to the conversation that this one was forked from; here it is not run"
)
_HALVED: Final = "the conversation was forked in the middle of this result: the rest of it is not here"
_LOST: Final = (
    "the re-run was broken off while this call was under way: nobody knows what it came to, and it is not run"
)


def cut_off(turn: Sequence[Entry], after: Entry | None) -> list[AnyBlock]:
    """What ends the turn where it is cut behind these entries of it; nothing where none is under way.

    `after` is the entry that stands behind the cut, if there is one.
    """
    own = _calls(turn)
    if own is None:
        return []
    blocks = [_receipt(call.tool_call_id, "call_cut", _CUT) for call in own if _is_open(call)]
    halved = _part_of(after)
    blocks += [
        _receipt(call.tool_call_id, "call_cut", _HALVED)
        for call in own
        if call.receipt_seqs and call.tool_call_id == halved
    ]
    return [*blocks, TurnEnded(reason="cancelled", text=_ENDED)]


def broken_off(turn: Sequence[Entry], why: str) -> list[AnyBlock]:
    """What ends the turn of a re-run that was broken off behind these entries of it; nothing where none is under way.

    Unlike that of a fork, a call without a result was begun here and may have been carried out.
    """
    own = _calls(turn)
    if own is None:
        return []
    blocks = [_receipt(call.tool_call_id, "tool_interrupted", _LOST) for call in own if _is_open(call)]
    return [*blocks, TurnEnded(reason="cancelled", text=why)]


def is_rerun(turn: Sequence[Entry]) -> bool:
    """Whether these entries of a turn say that it is one of a re-run."""
    return any(isinstance(entry.block, TurnStarted) and entry.block.rerun for entry in turn)


def standing(turn: Sequence[Entry], after: Entry | None) -> int:
    """The last place in these entries of a turn at which nobody is at work, or the model is about to be asked.

    It is the place before the turn where there is none. `after` is the entry behind them.
    """
    progress = ProgressView()
    found = turn[0].seq - 1
    for entry, following in pairwise([*turn, after]):
        assert entry is not None
        progress.add(entry)
        if not progress.running or (following and _asks(following)):
            found = entry.seq
    return found


def _calls(turn: Sequence[Entry]) -> list[Call] | None:
    """The calls of the turn; None where it is not under way."""
    progress, calls = ProgressView(), CallsView()
    for entry in turn:
        progress.add(entry)
        calls.add(entry)
    if not progress.running:
        return None
    return [call for key, call in calls.calls.items() if key.startswith(f"{progress.turn_id}.")]


def _is_open(call: Call) -> bool:
    return bool(call.call_seq) and not call.receipt_seqs


def _asks(entry: Entry) -> bool:
    match entry.block:
        case RoundStarted() | ModelCalled(purpose="decision"):
            return True
        case _:
            return False


def _part_of(entry: Entry | None) -> CallId | None:
    """The call whose results the entry belongs to."""
    match entry and entry.block:
        case ResultDigest() | ResultStatus() | ResultContent() | Note() | Notice() | SourcesAdded() as block:
            return block.tool_call_id
        case _:
            return None


def _receipt(call_id: CallId, code: str, text: str) -> AnyBlock:
    return ResultStatus(tool_call_id=call_id, text=text, error=registered_error(code, text))
