"""The view of the newest turn's progress, from which the next step is chosen."""

from typing import Final, Literal

import msgspec

from timeloom.core.blocks import (
    ApprovalDecided,
    ApprovalRequested,
    Completion,
    ExternalEvent,
    Followup,
    Gate,
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
from timeloom.core.view.turn_index import hint

CANCEL_EVENT: Final = "cancel"
"""The kind of the external event that ends the current turn."""

STEERED_ERROR: Final = "steered"
"""The error code of a request that a steer interrupted; it is not a failure of the model."""

MODEL_TOOL_ID: Final = "model"
"""The tool id in approval requests for model calls. Real tool ids contain a dot."""

RequestState = Literal["no", "asked", "answered", "failed"]

ApprovalState = Literal["started", "asked", "approved", "refused"]
"""The state of a step that may need approval: running, waiting for approval, approved or refused."""


class GatedStep(msgspec.Struct):
    """A step that may need a person's approval, and the state of that approval."""

    call_id: CallId
    policy: str = ""
    leave: ApprovalState = "started"
    said: str = ""
    """Who decided, and the reason."""
    tool_id: str = ""
    question: str = ""
    """The text of the approval request; empty if it is too large to be stored inline."""
    asked_seq: int = 0
    """The entry of the approval request."""
    withdrawn: bool = False
    """Whether the user steered after the step was proposed or begun. Such a step needs no decision and does not run
    again."""

    @property
    def is_pending(self) -> bool:
        """Whether the step still waits for a person's decision."""
        return self.leave == "asked" and not self.withdrawn


class ProgressView(msgspec.Struct):
    """The state of the current round: requests, replies, calls, and messages that arrived meanwhile."""

    turn_id: TurnId = NO_TURN
    running: bool = False
    round: int = 0
    asked: RequestState = "no"
    """Whether the model was asked in this round, and the outcome."""
    answer_seq: int = 0
    error: str = ""
    detail: str = ""
    attempts: int = 0
    """Number of requests sent in this round."""
    failures: int = 0
    """Number of consecutive failed requests."""
    lost: int = 0
    """Number of consecutive requests of this round whose outcome is unknown."""
    told: bool = False
    """Whether the model was informed that its last reply cannot be executed."""
    refusals: int = 0
    """Number of consecutive replies that could not be executed."""
    calls: list[CallId] = []
    """The calls of this round, in order."""
    open_call: GatedStep | None = None
    """The call that has no receipt yet."""
    model_call: GatedStep | None = None
    """The model call that needs approval and was not made yet."""
    gate: tuple[str, str] | None = None
    """The policy that refused the model call, and its reason."""
    acted: int = 0
    """Number of actions of the round's reply that have begun: calls and answers."""
    credits: int = 0
    """Number of rounds that follow-ups added to the turn's limit."""
    unseen: list[int] = []
    """Entries that arrived from outside since the model was last asked."""
    steered: bool = False
    """Whether the user steered since the model was last asked."""
    steered_round: int | None = None
    """The round in which the user last steered; only a few rounds remain after it."""
    stopped: bool = False
    """Whether the user stopped the turn."""
    cancelled: str = ""
    """Who cancelled the turn and why; empty if the turn was not cancelled."""
    tool_calls: dict[str, int] = {}
    """Number of calls of each tool in this turn."""

    @property
    def is_called_off(self) -> bool:
        """Whether the turn was stopped or cancelled, so that no new action may begin."""
        return self.stopped or bool(self.cancelled)

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
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
            case ModelCalled(purpose="decision") as call:
                seen = call.seen_at(entry.seq)
                self.lost = self.lost + 1 if self.asked == "asked" else 0
                self.asked, self.told = "asked", False
                self.unseen = [seq for seq in self.unseen if seq > seen]
                # Any message that the request does not contain may be the steer.
                self.steered = self.steered and bool(self.unseen)
                self.attempts += 1
                self.model_call = None
            case ModelAnswered(purpose="decision") as answer:
                self._add_answer(entry.seq, answer)
            case Notice(tool_call_id=None):
                self._add_notice()
            case TurnEnded():
                self.running = False
            case Gate() | ApprovalRequested() | ApprovalDecided() as block:
                self._add_governance(entry.seq, block)
            case _:
                self._add_action(entry)

    def _add_governance(self, seq: int, block: Gate | ApprovalRequested | ApprovalDecided) -> None:
        match block:
            case Gate(verdict="refuse", tool_call_id=None, policy=policy, text=text):
                self.gate = (policy, text)
            case Gate(verdict="allow"):
                for question in self._gated_steps(block.tool_call_id):
                    question.leave, question.withdrawn = "started", False
            case ApprovalRequested(tool_id=tool_id) if tool_id == MODEL_TOOL_ID:
                self.model_call = _to_asked_step(seq, block)
            case ApprovalRequested(tool_call_id=call_id) if self._gated_steps(call_id):
                self.open_call = _to_asked_step(seq, block, withdrawn=self.steered)
            case ApprovalDecided():
                self._decide(block)
            case _:
                pass

    def _gated_steps(self, call_id: CallId | None) -> list[GatedStep]:
        return [one for one in (self.open_call, self.model_call) if one and one.call_id == call_id]

    def _decide(self, decided: ApprovalDecided) -> None:
        for question in self._gated_steps(decided.tool_call_id):
            if question.is_pending:
                question.leave = "approved" if decided.approved else "refused"
                question.said = f"{hint(decided.by)}{f': {hint(decided.text)}' if decided.text else ''}"

    def _add_action(self, entry: Entry) -> None:
        match entry.block:
            case ToolCall(tool_id=tool_id, by=str()):
                # A nested call is not a step of the model: the outer call is still the open one.
                self.tool_calls[tool_id] = self.tool_calls.get(tool_id, 0) + 1
            case ToolCall(tool_call_id=call_id, tool_id=tool_id):
                self.calls.append(call_id)
                self.open_call, self.refusals = GatedStep(call_id, withdrawn=self.steered), 0
                self.acted += 1
                self.tool_calls[tool_id] = self.tool_calls.get(tool_id, 0) + 1
            case ResultDigest(tool_call_id=call_id) | ResultStatus(tool_call_id=call_id):
                if self._gated_steps(call_id):
                    self.open_call = None
            case Completion():
                self.refusals = 0
                self.acted += 1
            case ExternalEvent(kind=kind, author=by, text=text) if kind == CANCEL_EVENT:
                said = hint(text)
                self.cancelled = f"cancelled by {hint(by) or 'somebody'}{f': {said}' if said else ''}"
            case Followup() | ExternalEvent():
                self._add_input(entry.seq, credit=1)
            case Steer(text=text):
                self._add_input(entry.seq, credit=0)
                self.steered, self.steered_round = True, self.round
                self.stopped = self.stopped or not text
                if self.open_call:
                    self.open_call.withdrawn = True
            case _:
                pass

    def _begin_round(self, number: int) -> None:
        self.round, self.asked, self.answer_seq = number, "no", 0
        self.error = self.detail = ""
        self.attempts, self.lost, self.told = 0, 0, False
        self.calls, self.open_call, self.acted = [], None, 0
        self.model_call = None

    def _add_answer(self, seq: int, answer: ModelAnswered) -> None:
        self.answer_seq, self.error, self.detail = seq, answer.error, answer.detail
        self.asked = "failed" if answer.error else "answered"
        if answer.error != STEERED_ERROR:
            self.failures = self.failures + 1 if answer.error else 0

    def _add_notice(self) -> None:
        if self.asked == "answered" and not self.told:
            self.told = True
            self.refusals += 1

    def _add_input(self, seq: int, credit: int) -> None:
        self.unseen.append(seq)
        self.credits += credit


def pending_approvals(progress: ProgressView) -> tuple[GatedStep, ...]:
    """Return the steps of the open turn that a person has to decide on."""
    if not progress.running:
        return ()
    return tuple(one for one in (progress.open_call, progress.model_call) if one and one.is_pending)


def _to_asked_step(seq: int, request: ApprovalRequested, *, withdrawn: bool = False) -> GatedStep:
    return GatedStep(
        call_id=request.tool_call_id,
        policy=request.policy,
        leave="asked",
        tool_id=request.tool_id,
        question=request.text if isinstance(request.text, str) else "",
        asked_seq=seq,
        withdrawn=withdrawn,
    )
