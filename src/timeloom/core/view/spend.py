"""The view of spent amounts: model calls, tokens, money, rounds, tool calls and time, in total and per turn."""

from typing import ClassVar, Final

import msgspec

from timeloom.core.blocks import (
    ApprovalRequested,
    Gate,
    ModelAnswered,
    ModelCalled,
    ResultDigest,
    ResultStatus,
    RoundStarted,
    ToolCall,
    TurnStarted,
    Usage,
)
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry, microseconds_between
from timeloom.core.view.block_view import BlockView, Folds

MAX_SUM: Final = 2**63 - 1
"""The value at which sums stop growing."""


class Spend(msgspec.Struct, gc=False):
    """Sums over a part of a conversation."""

    model_calls: int = 0
    tool_calls: int = 0
    rounds: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    unknown_costs: int = 0
    """Number of model calls with unknown cost. If there are any, the cost is at least `cost_nano_usd`."""
    wall_us: int = 0
    """Total duration of model and tool calls, without calls cut off by a crash and without waiting for people."""

    def add_usage(self, usage: Usage, *, is_unknown: bool) -> None:
        """Add the usage of one model call, whose cost may be unknown."""
        self.model_calls += 1
        self.unknown_costs += is_unknown
        self.input_tokens += usage.input_tokens
        self.cache_read_tokens += usage.cache_read_tokens
        self.cache_write_tokens += usage.cache_write_tokens
        self.output_tokens += usage.output_tokens
        self.cost_nano_usd += usage.cost_nano_usd
        self._cap_sums()

    def add_time(self, microseconds: int) -> None:
        """Add the duration of a call."""
        self.wall_us = min(self.wall_us + microseconds, MAX_SUM)

    def _cap_sums(self) -> None:
        # Providers may report any number, and snapshots store 64 bits.
        if self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.output_tokens > MAX_SUM:
            self.input_tokens = min(self.input_tokens, MAX_SUM)
            self.cache_read_tokens = min(self.cache_read_tokens, MAX_SUM)
            self.cache_write_tokens = min(self.cache_write_tokens, MAX_SUM)
            self.output_tokens = min(self.output_tokens, MAX_SUM)
        if self.cost_nano_usd > MAX_SUM:
            self.cost_nano_usd = MAX_SUM


def has_unknown_cost(answer: ModelAnswered) -> bool:
    """Return whether the cost of the model call is unknown, or only estimated."""
    usage = answer.usage
    # An estimate of zero cost for real usage is exact: the model is free.
    is_guess = not answer.usage_reported and (usage.cost_nano_usd > 0 or usage == Usage())
    return not answer.priced or is_guess


class SpendView(BlockView, msgspec.Struct):
    """The spend of the whole conversation, of each turn and of each model."""

    total: Spend = msgspec.field(default_factory=Spend)
    by_turn: dict[TurnId, Spend] = {}
    by_model: dict[str, Spend] = {}
    outcomes: dict[CallPurpose, int] = {}
    """Number of model calls with a recorded outcome, by purpose."""
    began: dict[str, str] = {}
    """Start times of the open calls of the newest turn, by the purpose of a model call or by call id."""

    def _begin_turn(self, _: Entry, __: TurnStarted) -> None:
        self.began = {}

    def _add_round(self, entry: Entry, _: RoundStarted) -> None:
        self.total.rounds += 1
        self._of_turn(entry.turn_id).rounds += 1

    def _add_call(self, entry: Entry, call: ToolCall) -> None:
        if call.by is None:
            # The time of a nested call is part of its outer call's time.
            self.began[call.tool_call_id] = entry.ts
        self.total.tool_calls += 1
        self._of_turn(entry.turn_id).tool_calls += 1

    def _add_request(self, entry: Entry, block: ModelCalled) -> None:
        self.began[block.purpose] = entry.ts

    def _add_gate(self, entry: Entry, block: Gate) -> None:
        if block.verdict == "allow" and block.tool_call_id is not None:
            # The call starts now: it waited for approval, or a crash interrupted it.
            self.began[block.tool_call_id] = entry.ts

    def _add_approval_request(self, _: Entry, block: ApprovalRequested) -> None:
        self.began.pop(block.tool_call_id, None)

    def _add_answer(self, entry: Entry, answer: ModelAnswered) -> None:
        self._add_time(entry, answer.purpose)
        if answer.model not in self.by_model:
            self.by_model[answer.model] = Spend()
        is_unknown = has_unknown_cost(answer)
        for spend in (self.total, self._of_turn(entry.turn_id), self.by_model[answer.model]):
            spend.add_usage(answer.usage, is_unknown=is_unknown)
        self.outcomes[answer.purpose] = self.outcomes.get(answer.purpose, 0) + 1

    def _add_result(self, entry: Entry, block: ResultDigest | ResultStatus) -> None:
        self._add_time(entry, block.tool_call_id)

    def _add_time(self, entry: Entry, name: str) -> None:
        of_turn = self._of_turn(entry.turn_id)
        if took_us := microseconds_between(self.began.pop(name, entry.ts), entry.ts):
            self.total.add_time(took_us)
            of_turn.add_time(took_us)

    def _of_turn(self, turn: TurnId) -> Spend:
        spend = self.by_turn.get(turn)
        if spend is None:
            spend = self.by_turn[turn] = Spend()
        return spend

    folds: ClassVar[Folds] = {
        TurnStarted: _begin_turn,
        RoundStarted: _add_round,
        ToolCall: _add_call,
        ModelCalled: _add_request,
        ModelAnswered: _add_answer,
        Gate: _add_gate,
        ApprovalRequested: _add_approval_request,
        ResultDigest: _add_result,
        ResultStatus: _add_result,
    }
