"""Computes the cost of model calls: an upper bound before, the usage after, an estimate if usage is unknown."""

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
    written = "".join(text for text in (outcome.text, outcome.tool_calls) if isinstance(text, str))
    estimated = Usage(input_tokens=call.estimated_tokens, output_tokens=estimate_tokens(written))
    price = _price_nano_usd(model, estimated)
    return replace(outcome, usage=replace(estimated, cost_nano_usd=price or 0), priced=price is not None)


def cut_call_cost(most: MaxAmounts, prompt_tokens: int, written: str, model: Model | None) -> Amounts:
    """Return the cost of a call that ended without an outcome: its prompt and the text that was written.

    Without its model, the price is unknown, and the same share of the reserved money counts as of the reserved tokens.
    """
    usage = Usage(input_tokens=prompt_tokens, output_tokens=estimate_tokens(written))
    tokens = usage.input_tokens + usage.output_tokens
    price = _price_nano_usd(model, usage) if model else None
    if price is None:
        price = -(-(most.cost_nano_usd or 0) * tokens // max(1, most.tokens or 0, tokens))
    return Amounts(rounds=most.rounds, tokens=tokens, cost_nano_usd=price)


def presumed_cost(most: MaxAmounts) -> Amounts:
    """Return the amounts that count for a call whose cost cannot be found out."""
    # The duration of an interrupted call is unknown, so its time is not counted.
    return replace(most.presumed_amounts, wall_ms=0)


def _price_nano_usd(model: Model, usage: Usage) -> int | None:
    """Return the price of that usage; 0 for a model without prices, None if the price is unknown."""
    priced = as_priced_model(model)
    return priced.price_nano_usd(usage) if priced else 0


def model_cost(usage: Usage, rounds: int) -> Amounts:
    """Return the cost of a model call with that usage."""
    tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens + usage.output_tokens
    return Amounts(rounds=rounds, tokens=tokens, cost_nano_usd=usage.cost_nano_usd)
