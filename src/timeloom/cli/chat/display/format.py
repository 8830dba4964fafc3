"""Formats durations, sizes, counts, tokens and costs for people."""

import math
from typing import Final

from timeloom.core.view.spend import Spend

NANO: Final = 1_000_000_000
_MINUTE_S: Final = 60
_CLOSE_S: Final = 10
_KILO: Final = 1000


def duration(seconds: float) -> str:
    """Format a duration: `0.4 s`, `12 s`, `2 min 5 s`."""
    if seconds < _CLOSE_S:
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE_S)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def size(count: int) -> str:
    """Format a number of bytes: `812 bytes`, `3.4 kB`, `1.2 MB`."""
    if count < _KILO:
        return f"{count} byte{'' if count == 1 else 's'}"
    return f"{count / _KILO:.1f} kB" if count < _KILO * _KILO else f"{count / _KILO / _KILO:.1f} MB"


def counted(count: int, one: str) -> str:
    """Format a count with its noun: `1 round`, `3 rounds`."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def money(spend: Spend) -> str:
    """Format the cost in dollars; `at least $…` or `price unknown` where prices are missing."""
    dollars = spend.cost_nano_usd / NANO
    said = f"${dollars:.2f}" if dollars >= 1 or not dollars else f"${dollars:.{_digits(dollars)}f}"
    if not spend.unknown_costs:
        return said
    return f"at least {said}" if dollars else "price unknown"


def cost_line(spend: Spend) -> str:
    """Format the rounds, calls, tokens and cost of a turn or conversation on one line."""
    sent = spend.input_tokens + spend.cache_read_tokens + spend.cache_write_tokens
    cached = f" ({spend.cache_read_tokens * 100 // sent}% from cache)" if sent and spend.cache_read_tokens else ""
    parts = [
        counted(spend.rounds, "round") if spend.rounds else "",
        counted(spend.tool_calls, "call") if spend.tool_calls else "",
        f"{sent:,} tokens in{cached}",
        f"{spend.output_tokens:,} out",
        money(spend),
    ]
    return " · ".join(part for part in parts if part)


def _digits(dollars: float) -> int:
    """Return the number of decimals that shows two significant digits of an amount below one dollar."""
    return min(1 - math.floor(math.log10(dollars)), 9)
