"""Formats durations, sizes, counts, tokens and costs for people."""

import math
from typing import Final

from timeloom.core.view.spend import Spend

NANO: Final = 1_000_000_000
_MINUTE_S: Final = 60
_SHORT_S: Final = 10
_KILO: Final = 1000


def format_duration(seconds: float) -> str:
    """Format a duration: `0.4 s`, `12 s`, `2 min 5 s`."""
    if seconds < _SHORT_S:
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE_S)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def format_size(count: int) -> str:
    """Format a number of bytes: `812 bytes`, `3.4 kB`, `1.2 MB`."""
    if count < _KILO:
        return f"{count} byte{'' if count == 1 else 's'}"
    return f"{count / _KILO:.1f} kB" if count < _KILO * _KILO else f"{count / _KILO / _KILO:.1f} MB"


def format_count(count: int, one: str) -> str:
    """Format a count with its noun: `1 round`, `3 rounds`."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def format_cost(spend: Spend) -> str:
    """Format the cost in dollars; `at least $…` or `price unknown` where prices are missing."""
    dollars = spend.cost_nano_usd / NANO
    amount = f"${dollars:.2f}" if dollars >= 1 or not dollars else f"${dollars:.{_decimal_places(dollars)}f}"
    if not spend.unknown_costs:
        return amount
    return f"at least {amount}" if dollars else "price unknown"


def format_spend(spend: Spend) -> str:
    """Format the rounds, calls, tokens and cost of a turn or conversation on one line."""
    sent = spend.input_tokens + spend.cache_read_tokens + spend.cache_write_tokens
    cached = f" ({spend.cache_read_tokens * 100 // sent}% from cache)" if sent and spend.cache_read_tokens else ""
    parts = [
        format_count(spend.rounds, "round") if spend.rounds else "",
        format_count(spend.tool_calls, "call") if spend.tool_calls else "",
        f"{sent:,} tokens in{cached}",
        f"{spend.output_tokens:,} out",
        format_cost(spend),
    ]
    return " · ".join(part for part in parts if part)


def _decimal_places(dollars: float) -> int:
    """Return the number of decimals that shows two significant digits of an amount below one dollar."""
    return min(1 - math.floor(math.log10(dollars)), 9)
