"""The third edition as a `Renderer`."""

from typing import Final

from timeloom.core.blocks import Completion
from timeloom.core.ids import CallId
from timeloom.core.render.entry_text import NO_PAYLOADS, EntryText, Payloads
from timeloom.core.render.section import Section, SectionTitles
from timeloom.core.render.v2.entries import shorten
from timeloom.core.render.v2.names_at import NamesAt
from timeloom.core.render.v2.renderer import TITLES, V2Renderer
from timeloom.core.render.v2.tail.tail import current_turn_section
from timeloom.core.render.v3 import entries
from timeloom.core.timeline import Entry
from timeloom.core.view.aliases import ConversationNames
from timeloom.core.view.views import Views


class V3Renderer(V2Renderer):
    """The texts of the third edition: those of the second one, but for messages, turns, answers and calls."""

    number = 4
    titles = SectionTitles.from_texts({**TITLES.texts, Section.INTACT: "[TURNS] oldest first\n"})

    def entry_text(self, entry: Entry, views: Views, payloads: Payloads = NO_PAYLOADS) -> EntryText:
        names = NamesAt(views, entry.seq)
        call_id: CallId | None = getattr(entry.block, "tool_call_id", None)
        call = views.calls.get(entry.turn_id, call_id) if call_id else None
        if call is None:
            return entries.entry_text(entry, names, views.turns, payloads=payloads)
        return entries.entry_text(entry, names, views.turns, call.tool_id, payloads, call.traits)

    def shorten_entry(self, entry: Entry, chars: int, views: Views, payloads: Payloads = NO_PAYLOADS) -> str:
        if isinstance(entry.block, Completion):
            # An answer is shortened by lines, so its tags stand on lines of their own.
            return super().shorten_entry(entry, chars, views, payloads)
        made = self.entry_text(entry, views, payloads)
        return shorten.shorten_text(made, entry, chars, ConversationNames(views), payloads)

    def current_turn(self, views: Views) -> str:
        return current_turn_section(views, ConversationNames(views), "from its message on, above")


V3_RENDERER: Final = V3Renderer()
