"""The second edition as a `Renderer`."""

from collections.abc import Sequence
from typing import Final

from timeloom.core.blocks import Shown
from timeloom.core.ids import CallId, TurnId
from timeloom.core.render.entry_text import NO_PAYLOADS, EntryText, Payloads
from timeloom.core.render.facts import EMPTY_CONTEXT, CallFact, CardContext, CardLimits, RoundFacts, SummaryFacts
from timeloom.core.render.names import Names
from timeloom.core.render.section import Section, SectionTitles
from timeloom.core.render.v2 import call_list, summary
from timeloom.core.render.v2.entries import block_text, cards, previews, shorten, stubs
from timeloom.core.render.v2.names_at import NamesAt
from timeloom.core.render.v2.tail.announce import announce_section
from timeloom.core.render.v2.tail.sources_section import sources_section
from timeloom.core.render.v2.tail.tail import current_turn_section
from timeloom.core.render.v2.title_request import title_request_text
from timeloom.core.sources import SourcesPool
from timeloom.core.timeline import Entry
from timeloom.core.view.aliases import ConversationNames
from timeloom.core.view.context.visible import Stub
from timeloom.core.view.views import Views

TITLES: Final = SectionTitles.from_texts(
    {
        Section.COMPACTED: "[SUMMARY OF EARLIER TURNS]\n",
        Section.PRUNED: "[PRUNED TURNS]\n",
        Section.INTACT: "[TURNS] oldest first; the last one is the current turn\n",
    }
)


class V2Renderer:
    """The texts of the second edition."""

    number = 3
    titles = TITLES
    pinned_line = "[PINNED] kept on request\n"

    def entry_text(self, entry: Entry, views: Views, payloads: Payloads = NO_PAYLOADS) -> EntryText:
        return _render_entry(entry, views, payloads, NamesAt(views, entry.seq))

    def stub_text(self, stub: Stub, by: Entry, summary: EntryText, views: Views) -> EntryText:
        return stubs.stub_text(stub, by, summary, NamesAt(views, by.seq))

    def shorten_entry(self, entry: Entry, chars: int, views: Views, payloads: Payloads = NO_PAYLOADS) -> str:
        names = ConversationNames(views)
        made = _render_entry(entry, views, payloads, names)
        return shorten.shorten_text(made, entry, chars, names, payloads)

    def path(self, path: str, views: Views) -> str:
        return ConversationNames(views).path(path)

    def current_turn(self, views: Views) -> str:
        return current_turn_section(views, ConversationNames(views))

    def sources(self, pool: SourcesPool, views: Views) -> str:
        return sources_section(pool, ConversationNames(views))

    def announce(self, facts: RoundFacts, views: Views) -> str:
        return announce_section(facts, views, ConversationNames(views))

    def turn_card(
        self, turn: TurnId, entries: Sequence[Entry], views: Views, context: CardContext, limits: CardLimits
    ) -> str:
        return cards.turn_card(turn, entries, ConversationNames(views), context, limits)

    def rounds_card(
        self,
        rounds: tuple[int, int],
        turn_n: int,
        entries: Sequence[Entry],
        views: Views,
        context: CardContext,
        limits: CardLimits,
    ) -> str:
        return cards.rounds_card(rounds, turn_n, entries, ConversationNames(views), context, limits)

    def card_rows(
        self,
        entries: Sequence[Entry],
        views: Views,
        context: CardContext = EMPTY_CONTEXT,
        limits: CardLimits | None = None,
    ) -> list[str]:
        return cards.card_rows(entries, ConversationNames(views), context, limits or cards.DEFAULT_LIMITS)

    def has_messages(self, entries: Sequence[Entry], views: Views, context: CardContext = EMPTY_CONTEXT) -> bool:
        return cards.has_messages(entries, ConversationNames(views), context)

    def collapsed_head(self, turn_n: int, first_turn: int, outside: Sequence[int]) -> str:
        return cards.collapsed_head(turn_n, first_turn, outside)

    def call_lines(self, calls: Sequence[CallFact], tokens: int, views: Views) -> list[str]:
        return call_list.call_lines(calls, tokens, ConversationNames(views))

    def effects_line(self, calls: Sequence[CallFact]) -> str:
        return call_list.effects_line(calls)

    def message_row(self, kind: str, path: str, text: str, chars: int, views: Views) -> str:
        return summary.message_row(kind, ConversationNames(views).path(path), text, chars)

    def summary_text(self, prose: str, facts: SummaryFacts, views: Views, tokens: int, prose_tokens: int) -> str:
        return summary.summary_text(prose, facts, tokens, prose_tokens, ConversationNames(views))

    def summary_request(self, previous: str, cards: Sequence[str], prose_tokens: int, tokens: int, focus: str) -> str:
        return summary.summary_request_text(previous, cards, prose_tokens, tokens, focus)

    def title_request(self, message: str, answer: str) -> str:
        return title_request_text(message, answer)

    def preview(self, text: str, mime: str, path: str, views: Views, *, for_programs: bool) -> Shown:
        make = previews.preview_for_programs if for_programs else previews.outlined_preview
        return make(text, mime, ConversationNames(views).path(path))

    def data_preview(self, mime: str, size_bytes: int, path: str, views: Views) -> Shown:
        return previews.preview_data(mime, size_bytes, ConversationNames(views).path(path))


V2_RENDERER: Final = V2Renderer()


def _render_entry(entry: Entry, views: Views, payloads: Payloads, names: Names) -> EntryText:
    call_id: CallId | None = getattr(entry.block, "tool_call_id", None)
    call = views.calls.get(entry.turn_id, call_id) if call_id else None
    if call is None:
        return block_text.entry_text(entry, names, payloads=payloads)
    return block_text.entry_text(entry, names, call.tool_id, payloads, call.traits)
