"""The first edition as a `Renderer`."""

from collections.abc import Sequence
from typing import Final

from timeloom.core.blocks import Shown
from timeloom.core.ids import CallId, TurnId
from timeloom.core.paths import EntriesPath, TurnIndexesPath
from timeloom.core.render.entry_text import NO_PAYLOADS, EntryText, Payloads
from timeloom.core.render.facts import EMPTY_CONTEXT, CallFact, CardContext, CardLimits, RoundFacts, SummaryFacts
from timeloom.core.render.foreign_text.fence import one_line
from timeloom.core.render.section import Section, SectionTitles
from timeloom.core.render.title import title_request_text
from timeloom.core.render.v1 import call_list, summary
from timeloom.core.render.v1.entries import block_text, cards, previews, shorten, stubs
from timeloom.core.render.v1.tail.announce import announce_section
from timeloom.core.render.v1.tail.sources_section import sources_section
from timeloom.core.render.v1.tail.tail import current_turn_section
from timeloom.core.sources import SourcesPool
from timeloom.core.timeline import Entry
from timeloom.core.view.calls import CallEntries
from timeloom.core.view.context.visible import Stub
from timeloom.core.view.views import Views

TITLES: Final = SectionTitles.from_texts(
    {
        Section.COMPACTED: "[COMPACTED PRIOR CONVERSATION MEMORY]\n\n",
        Section.PRUNED: "PRUNED PRIOR TURNS\n\n",
        Section.INTACT: "RECENT INTACT TURNS\n(oldest first; the last turn here is the CURRENT TURN)\n\n",
    }
)


class V1Renderer:
    """The texts of the first edition."""

    number = 2
    titles = TITLES
    pinned_line = "[PINNED] kept on request\n"

    def entry_text(self, entry: Entry, views: Views, payloads: Payloads = NO_PAYLOADS) -> EntryText:
        call = _find_call(entry, views)
        if call is None:
            return block_text.entry_text(entry, payloads=payloads)
        return block_text.entry_text(entry, call.tool_id, payloads, call.traits)

    def stub_text(self, stub: Stub, by: Entry, summary: EntryText, views: Views) -> EntryText:
        return stubs.stub_text(stub, by, summary)

    def shorten_entry(self, entry: Entry, chars: int, views: Views, payloads: Payloads = NO_PAYLOADS) -> str:
        call = _find_call(entry, views)
        if call is None:
            return shorten.shorten_entry(entry, chars, payloads)
        return shorten.shorten_entry(entry, chars, payloads, call.tool_id, call.traits)

    def path(self, path: str, views: Views) -> str:
        return path

    def current_turn(self, views: Views) -> str:
        return current_turn_section(views)

    def sources(self, pool: SourcesPool, views: Views) -> str:
        return sources_section(pool)

    def announce(self, facts: RoundFacts, views: Views) -> str:
        return announce_section(facts, views)

    def turn_card(
        self, turn: TurnId, entries: Sequence[Entry], views: Views, context: CardContext, limits: CardLimits
    ) -> str:
        return cards.turn_card(turn, views.turns.turns[turn].n, entries, context, limits)

    def rounds_card(
        self,
        rounds: tuple[int, int],
        turn_n: int,
        entries: Sequence[Entry],
        views: Views,
        context: CardContext,
        limits: CardLimits,
    ) -> str:
        return cards.rounds_card(rounds, turn_n, entries, context, limits)

    def card_rows(
        self,
        entries: Sequence[Entry],
        views: Views,
        context: CardContext = EMPTY_CONTEXT,
        limits: CardLimits | None = None,
    ) -> list[str]:
        return cards.card_rows(entries, context, limits or cards.DEFAULT_LIMITS)

    def has_messages(self, entries: Sequence[Entry], views: Views, context: CardContext = EMPTY_CONTEXT) -> bool:
        return cards.has_messages(entries, context)

    def collapsed_head(self, turn_n: int, first_turn: int, outside: Sequence[int]) -> str:
        lines = [f'[PRUNED TURN {turn_n}] all of it: react.read(["{TurnIndexesPath.from_numbers([turn_n])}"])']
        if first_turn < turn_n:
            before = summary.turn_index_paths(first_turn, turn_n - 1)
            lines.append(f"What came before, an index for each turn: {before}")
        if outside:
            lines.append(f"Of no turn: {EntriesPath.from_numbers(outside)}")
        return "\n".join(lines)

    def call_lines(self, calls: Sequence[CallFact], tokens: int, views: Views) -> list[str]:
        return call_list.call_lines(calls, tokens)

    def effects_line(self, calls: Sequence[CallFact]) -> str:
        return call_list.effects_line(calls)

    def message_row(self, kind: str, path: str, text: str, chars: int, views: Views) -> str:
        return summary.quote_message(f"- {kind} {one_line(path)}", text, chars)

    def summary_text(self, prose: str, facts: SummaryFacts, views: Views, tokens: int, prose_tokens: int) -> str:
        return summary.summary_text(prose, facts, tokens, prose_tokens)

    def summary_request(self, previous: str, cards: Sequence[str], prose_tokens: int, tokens: int, focus: str) -> str:
        return summary.summary_request_text(previous, cards, prose_tokens, tokens, focus)

    def title_request(self, message: str, answer: str) -> str:
        return title_request_text(message, answer)

    def preview(self, text: str, mime: str, path: str, views: Views, *, for_programs: bool) -> Shown:
        make = previews.preview_for_programs if for_programs else previews.outlined_preview
        return make(text, mime, path)

    def data_preview(self, mime: str, size_bytes: int, path: str, views: Views) -> Shown:
        return previews.preview_data(mime, size_bytes, path)


V1_RENDERER: Final = V1Renderer()


def _find_call(entry: Entry, views: Views) -> CallEntries | None:
    call_id: CallId | None = getattr(entry.block, "tool_call_id", None)
    return views.calls.get(entry.turn_id, call_id) if call_id else None
