"""Renders the entries whose text differs from edition 2: messages, turns, answers and calls."""

from typing import Final

from timeloom.core.blocks import Completion, ToolCall, ToolTraits, TurnEnded, TurnStarted, UserPrompt
from timeloom.core.plans.marks import find_marks
from timeloom.core.render.entry_text import NO_PAYLOADS, NO_TEXT, EntryText, Payloads, text_from_lines
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.foreign_text.json_text import json_line
from timeloom.core.render.names import Names
from timeloom.core.render.v2.entries import block_text
from timeloom.core.render.v2.entries.call_text import action_text
from timeloom.core.render.v2.entries.channel_text import action, render_words, short_channel, text_without_gap
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
        case ToolCall() as block:
            return action_text(block, entry.turn_id, payloads, names, compact=True)
        case _:
            return block_text.entry_text(entry, names, tool_id, payloads, traits)


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
