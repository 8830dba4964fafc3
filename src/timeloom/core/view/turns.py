"""The view of turns and rounds: their entries, counters and end reasons."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
    ChannelText,
    Completion,
    EndReason,
    RangeSummary,
    RoundStarted,
    ToolCall,
    TurnEnded,
    TurnStarted,
    WorkingSummary,
)
from timeloom.core.ids import TurnId
from timeloom.core.paths import parse_turn_alias
from timeloom.core.stream.declared import NO_CHANNELS, DeclaredChannel
from timeloom.core.timeline import NO_TURN, Entry
from timeloom.core.view.block_view import BlockView, Folds, for_all_blocks


class Round(msgspec.Struct, frozen=True, gc=False):
    """A round: its number and its first entry."""

    n: int
    first_seq: int


class Turn(msgspec.Struct, gc=False):
    """A turn: its runs of entries, its rounds, its counters, and its end reason."""

    n: int
    spans: list[tuple[int, int]] = []
    rounds: list[Round] = []
    completions: int = 0
    channel_texts: dict[str, int] = {}
    """The number of texts on each declared channel."""
    working_summaries: int = 0
    range_summaries: int = 0
    ended: EndReason | None = None
    started: str = ""
    """The time at which the turn began; empty in logs without the header of the turn."""
    marks_rounds: bool = False
    """Whether the turn has `RoundStarted` blocks; in older logs each call starts a round."""

    def seqs(self) -> Iterator[int]:
        """Yield the seqs of the turn's entries, in order."""
        for first, last in self.spans:
            yield from range(first, last + 1)


class TurnsView(BlockView, msgspec.Struct):
    """All turns in the order in which they began, and the newest turn."""

    turns: dict[TurnId, Turn] = {}
    newest: TurnId = NO_TURN
    edition: int = 1
    """The edition of the newest turn."""
    output: str = ""
    """The JSON schema of the newest turn's answer; empty if it is plain text."""
    channels: tuple[DeclaredChannel, ...] = NO_CHANNELS
    """The declared channels of the newest turn."""
    by_number: list[TurnId] = []
    """The ids of the turns; the turn with the number 1 comes first."""

    def find(self, number: int) -> TurnId | None:
        """Return the turn with that number, or None if there are fewer turns."""
        return self.by_number[number - 1] if 1 <= number <= len(self.by_number) else None

    def find_named(self, text: str) -> TurnId | None:
        """Return the turn with that id, number or alias (`turn_…`, `12` or `t12`), or None if there is none."""
        number = parse_turn_alias(text) or parse_turn_alias(f"t{text}")
        if number:
            return self.find(number)
        return TurnId(text) if text in self.turns else None

    @property
    def open_turn(self) -> TurnId | None:
        """The newest turn if it has not ended."""
        turn = self.turns.get(self.newest)
        return self.newest if turn and turn.ended is None else None

    def _add_entry(self, entry: Entry, _: AnyBlock) -> Turn | None:
        """Add the entry to its turn and return the turn, or None if the entry belongs to none."""
        name, seq = entry.turn_id, entry.seq
        if name == NO_TURN:
            return None
        turn = self.turns.get(name)
        if turn is None:
            turn = self.turns[name] = Turn(len(self.turns) + 1)
            self.by_number.append(name)
            self.newest = name
        spans = turn.spans
        if spans:
            first, last = spans[-1]
            if last == seq - 1:
                spans[-1] = (first, seq)
                return turn
        spans.append((seq, seq))
        return turn

    def _add_round(self, entry: Entry, block: RoundStarted) -> None:
        if turn := self._add_entry(entry, block):
            turn.marks_rounds = True
            turn.rounds.append(Round(block.round, entry.seq))

    def _add_call(self, entry: Entry, block: ToolCall) -> None:
        if (turn := self._add_entry(entry, block)) and not turn.marks_rounds:
            turn.rounds.append(Round(len(turn.rounds) + 1, entry.seq))

    def _add_completion(self, entry: Entry, block: Completion) -> None:
        if turn := self._add_entry(entry, block):
            turn.completions += 1

    def _add_channel_text(self, entry: Entry, block: ChannelText) -> None:
        if turn := self._add_entry(entry, block):
            turn.channel_texts[block.channel] = turn.channel_texts.get(block.channel, 0) + 1

    def _add_working_summary(self, entry: Entry, block: WorkingSummary) -> None:
        if turn := self._add_entry(entry, block):
            turn.working_summaries += 1

    def _add_range_summary(self, entry: Entry, block: RangeSummary) -> None:
        if turn := self._add_entry(entry, block):
            turn.range_summaries += 1

    def _begin(self, entry: Entry, block: TurnStarted) -> None:
        if turn := self._add_entry(entry, block):
            turn.ended, turn.started = None, turn.started or entry.ts
            self.edition, self.output, self.channels = block.edition, block.output, block.channels

    def _end(self, entry: Entry, block: TurnEnded) -> None:
        if turn := self._add_entry(entry, block):
            turn.ended = block.reason

    folds: ClassVar[Folds] = {
        **for_all_blocks(_add_entry),
        RoundStarted: _add_round,
        ToolCall: _add_call,
        Completion: _add_completion,
        ChannelText: _add_channel_text,
        WorkingSummary: _add_working_summary,
        RangeSummary: _add_range_summary,
        TurnStarted: _begin,
        TurnEnded: _end,
    }
