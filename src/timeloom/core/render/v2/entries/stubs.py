"""Renders stubs: the text that replaces hidden, pruned or summarized entries in a prompt."""

from typing import assert_never

from timeloom.core.blocks import Hidden
from timeloom.core.render.entry_text import EntryText
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.names import Names
from timeloom.core.render.v2.entries.channel_text import read_call, text_without_gap
from timeloom.core.timeline import Entry
from timeloom.core.view.context.visible import Stub


def stub_text(stub: Stub, by: Entry, summary: EntryText, names: Names) -> EntryText:
    """Return the text of the stub; `by` is the entry that put it there, and `summary` the text of that entry.

    The text of a pruned stub was rendered when it was pruned, with all foreign text in it fenced.
    """
    match stub.kind:
        case "hidden":
            target = by.block.target if isinstance(by.block, Hidden) else ""
            return text_without_gap(hidden_line(stub.text, names.path(target)))
        case "pruned":
            return text_without_gap(stub.text)
        case "summary":
            return summary
        case _:
            assert_never(stub.kind)


def hidden_line(replacement: str, path: str) -> str:
    """Return the line that replaces entries hidden by the agent, with the agent's replacement text."""
    return f"HIDDEN — {one_line(replacement, 1_000).rstrip('. ')}. Retrieve with {read_call(path)}"
