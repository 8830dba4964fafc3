"""Renders the entries whose text differs from edition 2: messages, turns, answers and calls."""

from typing import Final

import msgspec

from timeloom.core.blocks import (
    Completion,
    ResultContent,
    ResultStatus,
    Shown,
    ToolCall,
    ToolTraits,
    TurnEnded,
    TurnStarted,
    UserPrompt,
)
from timeloom.core.blocks.tool_traits import resolve_traits
from timeloom.core.plans.marks import find_marks
from timeloom.core.render.entry_text import NO_PAYLOADS, NO_TEXT, EntryText, Payloads, text_from_lines
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.names import Names
from timeloom.core.render.v2.entries import block_text
from timeloom.core.render.v2.entries.call_text import action_text
from timeloom.core.render.v2.entries.channel_text import action, render_words, short_channel, text_without_gap
from timeloom.core.render.v2.fence import begin_line
from timeloom.core.render.v3.as_written import READ_MARK, SAME_TEXT
from timeloom.core.timeline import Entry
from timeloom.core.view.turns import TurnsView

_HOUR: Final = len("2026-02-09T02")
_MINUTE: Final = len("2026-02-09T02:14")


def entry_text(
    entry: Entry,
    names: Names,
    turns: TurnsView,
    tool_id: str = "",
    payloads: Payloads = NO_PAYLOADS,
    traits: ToolTraits | None = None,
) -> EntryText:
    """Return the text of the entry; `payloads` must contain `needed_payloads(entry)`.

    For an entry of a call, `tool_id` and `traits` are those that the call recorded.
    """
    match entry.block:
        case TurnStarted():
            return _time_text(entry, turns)
        case UserPrompt(text=text):
            head = f"[USER {names.turn(entry.turn_id)}]"
            return text_from_lines(head, render_words(text, entry.path, payloads, names))
        case Completion(text=text, suggested_followups=followups):
            said = render_words(text, entry.path, payloads, names)
            fields = {"action": "complete"} | ({"suggested_followups": followups} if followups else {})
            # An answer needs no action, unless the action says more.
            first = action(json_line(fields)) if followups or not said else ""
            return text_without_gap(first, short_channel("final_answer", said) if said else "")
        case TurnEnded(reason="completed", text=text):
            return _notes_at_end(text)
        case ResultStatus(error=None, text=str(said)) if _is_shown_by_files(said, resolve_traits(tool_id, traits)):
            return NO_TEXT
        case ResultContent(shown=Shown(how="stub", text=stub)) as block if _is_one_line(stub):
            return _stub_text(entry, block, stub, names)
        case ToolCall() as block:
            return action_text(block, entry.turn_id, payloads, names, compact=True)
        case _:
            return block_text.entry_text(entry, names, tool_id, payloads, traits)


def _is_shown_by_files(status: str, traits: ToolTraits) -> bool:
    """Whether the status of a tool that writes a file says only what its call and the line of the file show."""
    if not (traits.path_param and traits.conversation_only):
        return False
    try:
        fields = msgspec.json.decode(status, type=_WriteStatus)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return False
    return fields.result in _CHANGES and not fields.copied_from and not any(hunk.drift for hunk in fields.hunks)


class _Hunk(msgspec.Struct, frozen=True):
    drift: int = 0


class _WriteStatus(msgspec.Struct, frozen=True):
    result: str = ""
    copied_from: str = ""
    hunks: tuple[_Hunk, ...] = ()


_CHANGES: Final = ("patched", "replaced", "created")


def _is_one_line(stub: str) -> bool:
    return stub.startswith(READ_MARK) and "\n" not in stub


def _stub_text(entry: Entry, block: ResultContent, stub: str, names: Names) -> EntryText:
    """Return one line for a content that is not shown; nothing if the call shows it."""
    if stub == SAME_TEXT:
        return NO_TEXT
    place = "" if block.artifact_path.startswith("tc:") else names.path(block.artifact_path)
    return text_without_gap(
        begin_line(names.call(entry.turn_id, block.tool_call_id), place, stub.removeprefix(READ_MARK))
    )


def _time_text(entry: Entry, turns: TurnsView) -> EntryText:
    """Return the line with the time at which the turn began; nothing if the turn before began in the same hour."""
    turn = turns.turns.get(entry.turn_id)
    before = turns.find(turn.n - 1) if turn else None
    if before and turns.turns[before].started[:_HOUR] == entry.ts[:_HOUR]:
        return NO_TEXT
    return text_without_gap(f"[TIME] {entry.ts[:_MINUTE].replace('T', ' ')}")


def _notes_at_end(notes: str) -> EntryText:
    """Return the notes beside an answer, without the marks of plan steps: the plan shows them."""
    marks = {mark.line for mark in find_marks(notes)}
    rest = "\n".join(line for line in notes.splitlines() if line.strip() not in marks)
    return text_without_gap(f"[TURN END] completed: {one_line(rest)}") if rest.strip() else NO_TEXT
