"""Computes the cost of model calls: an upper bound before, the usage after, an estimate if usage is unreported."""

from typing import Final

from msgspec.structs import replace

from timeloom.core.blocks import ModelAnswered, ModelCalled, Usage
from timeloom.core.ids import CallId, TurnId
from timeloom.core.tokens import estimate_tokens
from timeloom.ports.ledger import Amounts, MaxAmounts
from timeloom.ports.model import Model, as_priced_model

MODEL_WALL_MS: Final = 600_000
"""Assumed maximum duration of a model call, reserved from time budgets that conversations share."""


def model_reservation_key(turn: TurnId, round_number: int, attempt: int) -> str:
    """Return the ledger key of the reservation for a model call."""
    return f"model/{turn}/{round_number}/{attempt}"


def tool_reservation_key(turn: TurnId, call_id: CallId) -> str:
    """Return the ledger key of the reservation for a tool call."""
    return f"tool/{turn}/{call_id}"


def max_model_cost(model: Model, prompt_tokens: int, max_output_tokens: int, rounds: int) -> MaxAmounts:
    """Return the upper bound of a model call's cost; the prompt is priced as a cache write, the dearest case."""
    priced = as_priced_model(model)
    dearest = Usage(
        cache_write_tokens=prompt_tokens, cache_write_1h_tokens=prompt_tokens, output_tokens=max_output_tokens
    )
    return MaxAmounts(
        rounds=rounds,
        tokens=prompt_tokens + max_output_tokens,
        cost_nano_usd=priced.price_nano_usd(dearest) if priced else None,
        wall_ms=MODEL_WALL_MS,
    )


def has_known_cost(model: Model, most: MaxAmounts) -> bool:
    """Return whether the cost of a call is known; a model without prices, such as the local one, costs nothing."""
    return most.cost_nano_usd is not None or as_priced_model(model) is None


def with_estimated_usage(outcome: ModelAnswered, call: ModelCalled, model: Model) -> ModelAnswered:
    """Return the outcome with estimated usage if the provider reported none: the call was paid for all the same."""
    if outcome.usage_reported or outcome.usage != Usage():
        return outcome
    written = outcome.text if isinstance(outcome.text, str) else ""
    estimated = Usage(input_tokens=call.estimated_tokens, output_tokens=estimate_tokens(written))
    priced = as_priced_model(model)
    price = priced.price_nano_usd(estimated) if priced else 0
    return replace(outcome, usage=replace(estimated, cost_nano_usd=price or 0), priced=price is not None)


def model_cost(usage: Usage, rounds: int) -> Amounts:
    """Return the cost of a model call with that usage."""
    tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens + usage.output_tokens
    return Amounts(rounds=rounds, tokens=tokens, cost_nano_usd=usage.cost_nano_usd)
