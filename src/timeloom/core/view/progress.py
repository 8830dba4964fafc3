"""The view of the newest turn's progress, from which the next step is chosen."""

from typing import ClassVar, Final, Literal

import msgspec

from timeloom.core.blocks import (
    AnyBlock,
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
from timeloom.core.view.block_view import BlockView, Folds, for_blocks
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


class ProgressView(BlockView, msgspec.Struct):
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

    def _begin_turn(self, entry: Entry, _: TurnStarted) -> None:
        fresh = ProgressView(turn_id=entry.turn_id, running=True)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(fresh, name))

    def _add_in_turn(self, entry: Entry, block: AnyBlock) -> None:
        if entry.turn_id == self.turn_id and entry.turn_id != NO_TURN:
            self.folds_in_turn[type(block)](self, entry, block)

    def _begin_round(self, _: Entry, block: RoundStarted) -> None:
        self.round, self.asked, self.answer_seq = block.round, "no", 0
        self.error = self.detail = ""
        self.attempts, self.lost, self.told = 0, 0, False
        self.calls, self.open_call, self.acted = [], None, 0
        self.model_call = None

    def _add_request(self, entry: Entry, call: ModelCalled) -> None:
        if call.purpose != "decision":
            return
        seen = call.seen_at(entry.seq)
        self.lost = self.lost + 1 if self.asked == "asked" else 0
        self.asked, self.told = "asked", False
        self.unseen = [seq for seq in self.unseen if seq > seen]
        # Any message that the request does not contain may be the steer.
        self.steered = self.steered and bool(self.unseen)
        self.attempts += 1
        self.model_call = None

    def _add_answer(self, entry: Entry, answer: ModelAnswered) -> None:
        if answer.purpose != "decision":
            return
        self.answer_seq, self.error, self.detail = entry.seq, answer.error, answer.detail
        self.asked = "failed" if answer.error else "answered"
        if answer.error != STEERED_ERROR:
            self.failures = self.failures + 1 if answer.error else 0

    def _add_notice(self, _: Entry, notice: Notice) -> None:
        if notice.tool_call_id is None and self.asked == "answered" and not self.told:
            self.told = True
            self.refusals += 1

    def _end_turn(self, _: Entry, __: TurnEnded) -> None:
        self.running = False

    def _add_gate(self, _: Entry, gate: Gate) -> None:
        if gate.verdict == "refuse" and gate.tool_call_id is None:
            self.gate = (gate.policy, gate.text)
        elif gate.verdict == "allow":
            for question in self._gated_steps(gate.tool_call_id):
                question.leave, question.withdrawn = "started", False

    def _add_approval_request(self, entry: Entry, request: ApprovalRequested) -> None:
        if request.tool_id == MODEL_TOOL_ID:
            self.model_call = _to_asked_step(entry.seq, request)
        elif self._gated_steps(request.tool_call_id):
            self.open_call = _to_asked_step(entry.seq, request, withdrawn=self.steered)

    def _add_decision(self, _: Entry, decided: ApprovalDecided) -> None:
        for question in self._gated_steps(decided.tool_call_id):
            if question.is_pending:
                question.leave = "approved" if decided.approved else "refused"
                question.said = f"{hint(decided.by)}{f': {hint(decided.text)}' if decided.text else ''}"

    def _gated_steps(self, call_id: CallId | None) -> list[GatedStep]:
        return [one for one in (self.open_call, self.model_call) if one and one.call_id == call_id]

    def _add_call(self, _: Entry, call: ToolCall) -> None:
        if call.by is None:
            # A nested call is not a step of the model: the outer call is still the open one.
            self.calls.append(call.tool_call_id)
            self.open_call, self.refusals = GatedStep(call.tool_call_id, withdrawn=self.steered), 0
            self.acted += 1
        self.tool_calls[call.tool_id] = self.tool_calls.get(call.tool_id, 0) + 1

    def _add_receipt(self, _: Entry, result: ResultDigest | ResultStatus) -> None:
        call_id, open_call, model_call = result.tool_call_id, self.open_call, self.model_call
        if (open_call and open_call.call_id == call_id) or (model_call and model_call.call_id == call_id):
            self.open_call = None

    def _add_completion(self, _: Entry, __: Completion) -> None:
        self.refusals = 0
        self.acted += 1

    def _add_event(self, entry: Entry, event: ExternalEvent) -> None:
        if event.kind == CANCEL_EVENT:
            said = hint(event.text)
            self.cancelled = f"cancelled by {hint(event.author) or 'somebody'}{f': {said}' if said else ''}"
        else:
            self._add_input(entry.seq, credit=1)

    def _add_followup(self, entry: Entry, _: Followup) -> None:
        self._add_input(entry.seq, credit=1)

    def _add_steer(self, entry: Entry, steer: Steer) -> None:
        self._add_input(entry.seq, credit=0)
        self.steered, self.steered_round = True, self.round
        self.stopped = self.stopped or not steer.text
        if self.open_call:
            self.open_call.withdrawn = True

    def _add_input(self, seq: int, credit: int) -> None:
        self.unseen.append(seq)
        self.credits += credit

    folds_in_turn: ClassVar[Folds] = {
        RoundStarted: _begin_round,
        ModelCalled: _add_request,
        ModelAnswered: _add_answer,
        Notice: _add_notice,
        TurnEnded: _end_turn,
        Gate: _add_gate,
        ApprovalRequested: _add_approval_request,
        ApprovalDecided: _add_decision,
        ToolCall: _add_call,
        ResultDigest: _add_receipt,
        ResultStatus: _add_receipt,
        Completion: _add_completion,
        ExternalEvent: _add_event,
        Followup: _add_followup,
        Steer: _add_steer,
    }
    """The methods for entries of the newest turn."""

    folds: ClassVar[Folds] = {
        **for_blocks(folds_in_turn, _add_in_turn),
        TurnStarted: _begin_turn,
    }
    resets: ClassVar[frozenset[type[AnyBlock]]] = frozenset((TurnStarted,))


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
