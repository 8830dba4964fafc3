"""The view of turns and rounds: their entries, counters and end reasons."""

from collections.abc import Iterator

import msgspec

from timeloom.core.blocks import (
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
from timeloom.core.timeline import NO_TURN, Entry


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
    working_summaries: int = 0
    range_summaries: int = 0
    ended: EndReason | None = None
    marks_rounds: bool = False
    """Whether the turn has `RoundStarted` blocks; in older logs each call starts a round."""

    def seqs(self) -> Iterator[int]:
        """Yield the seqs of the turn's entries, in order."""
        for first, last in self.spans:
            yield from range(first, last + 1)


class TurnsView(msgspec.Struct):
    """All turns in the order in which they began, and the newest turn."""

    turns: dict[TurnId, Turn] = {}
    newest: TurnId = NO_TURN

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        if entry.turn_id == NO_TURN:
            return
        turn = self._turn(entry)
        match entry.block:
            case RoundStarted(round=n):
                turn.marks_rounds = True
                turn.rounds.append(Round(n, entry.seq))
            case ToolCall() if not turn.marks_rounds:
                turn.rounds.append(Round(len(turn.rounds) + 1, entry.seq))
            case Completion():
                turn.completions += 1
            case WorkingSummary():
                turn.working_summaries += 1
            case RangeSummary():
                turn.range_summaries += 1
            case TurnStarted():
                turn.ended = None
            case TurnEnded(reason=reason):
                turn.ended = reason
            case _:
                pass

    @property
    def open_turn(self) -> TurnId | None:
        """The newest turn if it has not ended."""
        turn = self.turns.get(self.newest)
        return self.newest if turn and turn.ended is None else None

    def _turn(self, entry: Entry) -> Turn:
        turn = self.turns.get(entry.turn_id)
        if turn is None:
            turn = self.turns[entry.turn_id] = Turn(len(self.turns) + 1)
            self.newest = entry.turn_id
        if turn.spans and turn.spans[-1][1] == entry.seq - 1:
            turn.spans[-1] = (turn.spans[-1][0], entry.seq)
        else:
            turn.spans.append((entry.seq, entry.seq))
        return turn
