"""Progress: how far the newest turn has come, as far as the next step depends on it."""

from typing import Final, Literal

import msgspec

from timeloom.core.blocks import (
    Completion,
    ExternalEvent,
    Followup,
    ModelAnswered,
    ModelCalled,
    Notice,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    Steer,
    ToolCall,
    TurnEnded,
    TurnStarted,
)
from timeloom.core.ids import CallId, TurnId
from timeloom.core.timeline import NO_TURN, Entry

STEERED: Final = "steered"
"""The error of a request that the user's new course cut short; it is no failure of the model."""

Asked = Literal["no", "asked", "answered", "failed"]


class ProgressView(msgspec.Struct):
    """The round that is running: what was asked, what came back, which calls it made, and what arrived meanwhile."""

    turn_id: TurnId = NO_TURN
    running: bool = False
    round: int = 0
    asked: Asked = "no"
    """Whether the model was asked in this round, and how that ended."""
    answer_seq: int = 0
    error: str = ""
    detail: str = ""
    attempts: int = 0
    """Requests sent in this round."""
    failures: int = 0
    """Requests that failed in a row."""
    told: bool = False
    """Whether the model was told, after its answer, that it cannot be carried out."""
    refusals: int = 0
    """Answers in a row that could not be carried out."""
    calls: list[CallId] = []
    """The calls that this round made, in order."""
    open_call: CallId | None = None
    acted: int = 0
    """Actions of the round's answer that were begun: calls and answers."""
    credits: int = 0
    """Rounds that follow-ups added to the turn's limit."""
    unseen: list[int] = []
    """What arrived from outside since the model was last asked."""
    steered_round: int | None = None
    """The round in which the user last changed course; only a few more are left then."""
    stopped: bool = False
    """Whether the user said stop."""

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        if isinstance(entry.block, TurnStarted):
            self._begin_turn(entry)
        elif entry.turn_id == self.turn_id and entry.turn_id != NO_TURN:
            self._add(entry)

    def _begin_turn(self, entry: Entry) -> None:
        fresh = ProgressView(turn_id=entry.turn_id, running=True)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(fresh, name))

    def _add(self, entry: Entry) -> None:
        match entry.block:
            case RoundStarted(round=number):
                self._begin_round(number)
            case ModelCalled(purpose="decision"):
                self.asked, self.told, self.unseen = "asked", False, []
                self.attempts += 1
            case ModelAnswered(purpose="decision") as answer:
                self._add_answer(entry.seq, answer)
            case Notice(tool_call_id=None):
                self._add_notice()
            case TurnEnded():
                self.running = False
            case _:
                self._add_action(entry)

    def _add_action(self, entry: Entry) -> None:
        match entry.block:
            case ToolCall(tool_call_id=call_id):
                self.calls.append(call_id)
                self.open_call, self.refusals = call_id, 0
                self.acted += 1
            case ResultDigest(tool_call_id=call_id) | ResultStatus(tool_call_id=call_id) if call_id == self.open_call:
                self.open_call = None
            case Completion():
                self.refusals = 0
                self.acted += 1
            case Followup() | ExternalEvent():
                self._add_input(entry.seq, credit=1)
            case Steer(text=text):
                self._add_input(entry.seq, credit=0)
                self.steered_round = self.round
                self.stopped = self.stopped or not text
            case _:
                pass

    def _begin_round(self, number: int) -> None:
        self.round, self.asked, self.answer_seq = number, "no", 0
        self.error = self.detail = ""
        self.attempts, self.told = 0, False
        self.calls, self.open_call, self.acted = [], None, 0

    def _add_answer(self, seq: int, answer: ModelAnswered) -> None:
        self.answer_seq, self.error, self.detail = seq, answer.error, answer.detail
        self.asked = "failed" if answer.error else "answered"
        if answer.error != STEERED:
            self.failures = self.failures + 1 if answer.error else 0

    def _add_notice(self) -> None:
        if self.asked == "answered" and not self.told:
            self.told = True
            self.refusals += 1

    def _add_input(self, seq: int, credit: int) -> None:
        self.unseen.append(seq)
        self.credits += credit
