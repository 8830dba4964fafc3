"""What was spent: model calls, tokens, money, rounds and tool calls, in all and per turn."""

from typing import Final, assert_never

import msgspec

from timeloom.core.blocks import ModelAnswered, RoundStarted, ToolCall
from timeloom.core.blocks.round import CallPurpose
from timeloom.core.ids import TurnId
from timeloom.core.timeline import Entry

MAX_SUM: Final = 2**63 - 1
"""Where sums stop growing."""


class Spend(msgspec.Struct, gc=False):
    """Sums over some part of a conversation."""

    model_calls: int = 0
    tool_calls: int = 0
    rounds: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    unknown_costs: int = 0
    """Model calls whose cost nobody knows: where there are any, the cost is at least `cost_nano_usd`."""

    def add(self, block: ModelAnswered | ToolCall | RoundStarted) -> None:
        """Takes in what costs."""
        match block:
            case ModelAnswered(usage=usage, usage_reported=reported, priced=priced):
                self.model_calls += 1
                self.unknown_costs += not (reported and priced)
                self.input_tokens = _sum(self.input_tokens, usage.input_tokens)
                self.cache_read_tokens = _sum(self.cache_read_tokens, usage.cache_read_tokens)
                self.cache_write_tokens = _sum(self.cache_write_tokens, usage.cache_write_tokens)
                self.output_tokens = _sum(self.output_tokens, usage.output_tokens)
                self.cost_nano_usd = _sum(self.cost_nano_usd, usage.cost_nano_usd)
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
    """How often a model was asked for each purpose and what came of it was recorded."""

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        block = entry.block
        if not isinstance(block, ModelAnswered | ToolCall | RoundStarted):
            return
        self.total.add(block)
        self.by_turn.setdefault(entry.turn_id, Spend()).add(block)
        if isinstance(block, ModelAnswered):
            self.by_model.setdefault(block.model, Spend()).add(block)
            self.outcomes[block.purpose] = self.outcomes.get(block.purpose, 0) + 1


def _sum(spent: int, more: int) -> int:
    # Providers can report anything; a snapshot takes 64 bits.
    return min(spent + more, MAX_SUM)
