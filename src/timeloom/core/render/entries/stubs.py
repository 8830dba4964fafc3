"""Renders stubs: the text that replaces hidden, pruned or summarized entries in a prompt."""

from typing import assert_never

from timeloom.core.blocks import Hidden
from timeloom.core.render.entries.entry_text import EntryText, made_of
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.timeline import Entry
from timeloom.core.view.context.visible import Stand


def stand_text(stand: Stand, by: Entry, summary: EntryText) -> EntryText:
    """Return the text of the stub; `by` is the entry that put it there, and `summary` the text of that entry.

    The text of a pruned stub was rendered when it was pruned, with all foreign text in it fenced.
    """
    match stand.kind:
        case "hidden":
            return made_of(hidden_line(stand.text, by.block.target if isinstance(by.block, Hidden) else ""))
        case "pruned":
            return made_of(stand.text)
        case "summary":
            return summary
        case _:
            assert_never(stand.kind)


def hidden_line(replacement: str, path: str) -> str:
    """Return the line that replaces entries hidden by the agent, with the agent's replacement text."""
    return f"HIDDEN — {one_line(replacement, 1_000).rstrip('. ')}. Retrieve with react.read({one_line(path, 1_200)})"
