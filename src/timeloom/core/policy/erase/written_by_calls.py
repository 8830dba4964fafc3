"""Finds the files, notes and plans that repeat the parameters of a call."""

from collections.abc import Sequence

from timeloom.core.blocks import Note, PlanRecorded, ResultContent, ToolCall
from timeloom.core.ids import CallId, TurnId
from timeloom.core.timeline import Entry

_Key = tuple[TurnId, CallId]


def add_written_entries(entries: Sequence[Entry], seqs: frozenset[int]) -> frozenset[int]:
    """Return these entries, extended by the entries that their calls wrote.

    A file and the note of the same call hold the same text, so each of them implies the other.
    """
    writing = {
        (entry.turn_id, entry.block.tool_call_id)
        for entry in entries
        if isinstance(entry.block, ToolCall) and entry.block.known_traits.content_param
    }
    named = [entries[seq - 1] for seq in seqs]
    planning = {_call_key(entry) for entry in named if isinstance(entry.block, ToolCall)}
    wanted = planning | {key for entry in named if (key := _written_by(entry, writing))}
    found = set(seqs)
    last: _Key | None = None
    for entry in entries:
        last = _call_key(entry) or last
        is_plan = isinstance(entry.block, PlanRecorded) and last in planning
        if is_plan or _written_by(entry, writing) in wanted:
            found.add(entry.seq)
    return frozenset(found)


def _call_key(entry: Entry) -> _Key | None:
    return (entry.turn_id, entry.block.tool_call_id) if isinstance(entry.block, ToolCall) else None


def _written_by(entry: Entry, writing: set[_Key]) -> _Key | None:
    """Return the call whose parameters the entry repeats."""
    match entry.block:
        case Note(tool_call_id=call):
            return entry.turn_id, call
        case ResultContent(tool_call_id=call, artifact_path=path) if path.startswith("fi:"):
            return (entry.turn_id, call) if (entry.turn_id, call) in writing else None
        case _:
            return None
