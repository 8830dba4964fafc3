"""The view of spent amounts: model calls, tokens, money, rounds, tool calls and time, in total and per turn."""

from typing import Final, assert_never

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

    def add(self, block: ModelAnswered | ToolCall | RoundStarted) -> None:
        """Add the costs of one block."""
        match block:
            case ModelAnswered(usage=usage, usage_reported=reported, priced=priced):
                self.model_calls += 1
                # An estimate of zero cost for real usage is exact: the model is free.
                is_guess = not reported and (usage.cost_nano_usd > 0 or usage == Usage())
                self.unknown_costs += not priced or is_guess
                self.input_tokens = _capped_sum(self.input_tokens, usage.input_tokens)
                self.cache_read_tokens = _capped_sum(self.cache_read_tokens, usage.cache_read_tokens)
                self.cache_write_tokens = _capped_sum(self.cache_write_tokens, usage.cache_write_tokens)
                self.output_tokens = _capped_sum(self.output_tokens, usage.output_tokens)
                self.cost_nano_usd = _capped_sum(self.cost_nano_usd, usage.cost_nano_usd)
            case ToolCall():
                self.tool_calls += 1
            case RoundStarted():
                self.rounds += 1
            case _:
                assert_never(block)


class SpendView(msgspec.Struct):
    """The spend of the whole conversation, of each turn and of each model."""

    total: Spend = msgspec.field(default_factory=Spend)
    by_turn: dict[TurnId, Spend] = {}
    by_model: dict[str, Spend] = {}
    outcomes: dict[CallPurpose, int] = {}
    """Number of model calls with a recorded outcome, by purpose."""
    began: dict[str, str] = {}
    """Start times of the open calls of the newest turn, by the purpose of a model call or by call id."""

    def add(self, entry: Entry) -> None:
        """Fold in the next entry."""
        self._add_time(entry)
        block = entry.block
        if not isinstance(block, ModelAnswered | ToolCall | RoundStarted):
            return
        self.total.add(block)
        self.by_turn.setdefault(entry.turn_id, Spend()).add(block)
        if isinstance(block, ModelAnswered):
            self.by_model.setdefault(block.model, Spend()).add(block)
            self.outcomes[block.purpose] = self.outcomes.get(block.purpose, 0) + 1

    def _add_time(self, entry: Entry) -> None:
        match entry.block:
            case TurnStarted():
                self.began = {}
            case ToolCall(by=str()):
                # The time of a nested call is part of its outer call's time.
                pass
            case ModelCalled(purpose=name) | ToolCall(tool_call_id=name):
                self.began[name] = entry.ts
            case Gate(verdict="allow", tool_call_id=str(name)):
                # The call starts now: it waited for approval, or a crash interrupted it.
                self.began[name] = entry.ts
            case ApprovalRequested(tool_call_id=name):
                self.began.pop(name, None)
            case ModelAnswered(purpose=name) | ResultDigest(tool_call_id=name) | ResultStatus(tool_call_id=name):
                took_us = microseconds_between(self.began.pop(name, entry.ts), entry.ts)
                for spend in (self.total, self.by_turn.setdefault(entry.turn_id, Spend())):
                    spend.wall_us = _capped_sum(spend.wall_us, took_us)
            case _:
                pass


def _capped_sum(spent: int, more: int) -> int:
    # Providers may report any number, and snapshots store 64 bits.
    return min(spent + more, MAX_SUM)
