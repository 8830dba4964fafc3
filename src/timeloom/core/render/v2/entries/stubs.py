"""Renders stubs: the text that replaces hidden, pruned or summarized entries in a prompt."""

import re
from typing import Final, assert_never

from timeloom.core.blocks import Hidden
from timeloom.core.render.entry_text import EntryText
from timeloom.core.render.foreign_text.fence import one_line, split_lines
from timeloom.core.render.names import Names
from timeloom.core.render.v2.entries.channel_text import read_call, text_without_gap
from timeloom.core.render.v2.fence import refence_words
from timeloom.core.timeline import Entry
from timeloom.core.view.context.visible import Stub

_FIRST_EDITION_CARD: Final = re.compile(
    r"\[(?:PRUNED (?:TURN|ROUND) [0-9]|USER (?:MESSAGE|ATTACHMENT|FOLLOWUP|STEER)\]|EXTERNAL EVENT "
    r"|TOOL (?:RESULT|CODE) |ASSISTANT MESSAGE\]|WORKING SUMMARY\]|CONVERSATION SUMMARY\]"
    r"|REACT\.|react\.|stage\.|AI Agent )"
)
"""The first line of a card, or of a shortened entry, that the first edition recorded."""

_FIRST_EDITION_LINE: Final = re.compile(r"\[(?:[A-Z]{3}|react\.|stage\.|AI Agent|path:|physical_path:)")


def stub_text(stub: Stub, by: Entry, summary: EntryText, names: Names) -> EntryText:
    """Return the text of the stub; `by` is the entry that put it there, and `summary` the text of that entry.

    The text of a pruned stub was rendered when it was pruned, with all foreign text in it fenced.
    """
    match stub.kind:
        case "hidden":
            target = by.block.target if isinstance(by.block, Hidden) else ""
            return text_without_gap(hidden_line(stub.text, names.path(target)))
        case "pruned":
            return text_without_gap(_escape_first_edition(stub.text))
        case "summary":
            return summary
        case _:
            assert_never(stub.kind)


def _escape_first_edition(text: str) -> str:
    """Return a card with words escaped that the first edition left bare; a card of this edition stays as it is.

    The first edition escaped only beginnings of its own lines, so its lines are known by their beginnings.
    """
    if not _FIRST_EDITION_CARD.match(text):
        return text
    return "".join(line if _FIRST_EDITION_LINE.match(line) else refence_words(line) for line in split_lines(text))


def hidden_line(replacement: str, path: str) -> str:
    """Return the line that replaces entries hidden by the agent, with the agent's replacement text."""
    return f"HIDDEN — {one_line(replacement, 1_000).rstrip('. ')}. Retrieve with {read_call(path)}"
