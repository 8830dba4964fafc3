"""The interface of an edition of the rendering: everything that turns recorded values into text for a model."""

from collections.abc import Sequence
from typing import Protocol

from timeloom.core.blocks import Shown
from timeloom.core.ids import TurnId
from timeloom.core.render.entry_text import NO_PAYLOADS, EntryText, Payloads
from timeloom.core.render.facts import EMPTY_CONTEXT, CallFact, CardContext, CardLimits, RoundFacts, SummaryFacts
from timeloom.core.render.section import SectionTitles
from timeloom.core.sources import SourcesPool
from timeloom.core.timeline import Entry
from timeloom.core.view.context.visible import Stub
from timeloom.core.view.views import Views


class Renderer(Protocol):
    """The texts of one edition. `views` must contain the entries that are rendered; it may be further ahead."""

    @property
    def number(self) -> int:
        """The rendering number that is recorded with every model call."""
        ...

    @property
    def titles(self) -> SectionTitles:
        """The titles of the sections of the cacheable part."""
        ...

    @property
    def pinned_line(self) -> str:
        """The line before a pinned entry once the entries around it are removed."""
        ...

    def entry_text(self, entry: Entry, views: Views, payloads: Payloads = NO_PAYLOADS) -> EntryText:
        """Return the text of an entry; `payloads` must contain `needed_payloads(entry)`."""
        ...

    def stub_text(self, stub: Stub, by: Entry, summary: EntryText, views: Views) -> EntryText:
        """Return the text of the stub; `by` is the entry that put it there, and `summary` the text of that entry."""
        ...

    def shorten_entry(self, entry: Entry, chars: int, views: Views, payloads: Payloads = NO_PAYLOADS) -> str:
        """Return head and tail of the entry's text, at most about `chars` characters, and how to read the rest."""
        ...

    def path(self, path: str, views: Views) -> str:
        """Return the path as this edition shows it."""
        ...

    def current_turn(self, views: Views) -> str:
        """Return the section that says where the current turn begins; empty before the first turn."""
        ...

    def sources(self, pool: SourcesPool, views: Views) -> str:
        """Return the section with the newest sources; empty while there are none."""
        ...

    def announce(self, facts: RoundFacts, views: Views) -> str:
        """Return the section with the facts of a round; its length is bounded."""
        ...

    def turn_card(
        self, turn: TurnId, entries: Sequence[Entry], views: Views, context: CardContext, limits: CardLimits
    ) -> str:
        """Return the card that replaces a turn."""
        ...

    def rounds_card(
        self,
        rounds: tuple[int, int],
        turn_n: int,
        entries: Sequence[Entry],
        views: Views,
        context: CardContext,
        limits: CardLimits,
    ) -> str:
        """Return the card that replaces the rounds from the first to the second number in a visible turn."""
        ...

    def card_rows(
        self,
        entries: Sequence[Entry],
        views: Views,
        context: CardContext = EMPTY_CONTEXT,
        limits: CardLimits | None = None,
    ) -> list[str]:
        """Return a row for each entry that is neither text nor bookkeeping."""
        ...

    def has_messages(self, entries: Sequence[Entry], views: Views, context: CardContext = EMPTY_CONTEXT) -> bool:
        """Whether a card of these entries shows more than rows."""
        ...

    def collapsed_head(self, turn_n: int, first_turn: int, outside: Sequence[int]) -> str:
        """Return the head of a card for everything from the first turn on; `outside` are entries of no turn."""
        ...

    def call_lines(self, calls: Sequence[CallFact], tokens: int, views: Views) -> list[str]:
        """Return a line for each call, those with effects last; if that is too long, groups of calls."""
        ...

    def effects_line(self, calls: Sequence[CallFact]) -> str:
        """Return the line that counts the executed calls with effects; empty if there are none."""
        ...

    def message_row(self, kind: str, path: str, text: str, chars: int, views: Views) -> str:
        """Return the row of a summary with a message; at most `chars` characters of its text."""
        ...

    def summary_text(self, prose: str, facts: SummaryFacts, views: Views, tokens: int, prose_tokens: int) -> str:
        """Return the text of a summary with at most about `tokens` tokens, however many entries it covers."""
        ...

    def summary_request(self, previous: str, cards: Sequence[str], prose_tokens: int, tokens: int, focus: str) -> str:
        """Return the material from which a model writes the prose of a summary."""
        ...

    def title_request(self, message: str, answer: str) -> str:
        """Return the material from which a model writes the title of a conversation."""
        ...

    def preview(self, text: str, mime: str, path: str, views: Views, *, for_programs: bool) -> Shown:
        """Return how a prompt shows a result: whole, or as a preview with size, outline and how to read it."""
        ...

    def data_preview(self, mime: str, size_bytes: int, path: str, views: Views) -> Shown:
        """Return how a prompt shows binary data: attached, or named in one line."""
        ...
