"""Prices: what a model call cost, by a table of overrides or by the genai-prices library."""

import threading
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import Final

import msgspec

from timeloom.core.blocks import Usage
from timeloom.providers.settings import Price

NANO_USD: Final = 1_000_000_000
MAX_NANO_USD: Final = 2**53 - 1
NANO_USD_PER_TOKEN: Final = 1000
"""A dollar per million tokens, in billionths of a dollar per token."""

HOUR_SURCHARGE: Final = Decimal("0.6")
"""What a token that is written to the cache for an hour costs more than one for five minutes, as a share of that."""

Calculate = Callable[[Usage, str, str | None, str | None], Decimal | None]


class Cost(msgspec.Struct, frozen=True):
    """What a call cost; 0 and not `known` where nobody knows the model's price."""

    nano_usd: int
    known: bool


class Prices:
    """Knows what models cost: by the overrides, whose names may end in `*`, then by the library, if it is installed."""

    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self._exact = {name: price for name, price in (overrides or {}).items() if not name.endswith("*")}
        prefixes = {name[:-1]: price for name, price in (overrides or {}).items() if name.endswith("*")}
        self._prefixes = sorted(prefixes.items(), key=lambda item: -len(item[0]))

    def warm(self) -> None:
        """Begins to load the library, which takes a while, beside whatever happens meanwhile."""
        if library.cache_info().currsize == 0:
            threading.Thread(target=library, name="timeloom-prices", daemon=True).start()

    def cost(self, name: str, usage: Usage, *, api_url: str | None = None) -> Cost:
        """The cost of a call to the model of this name, asked at `api_url` where that is not the provider's own."""
        override = self._override(name)
        if override is not None:
            return Cost(_by_table(override, usage), known=True)
        provider, _, model = name.partition(":")
        calculate = library()
        dollars = calculate(usage, model, None if api_url else provider, api_url) if calculate else None
        if dollars is None:
            return Cost(0, known=False)
        return Cost(_rounded(dollars * NANO_USD), known=True)

    def _override(self, name: str) -> Price | None:
        exact = self._exact.get(name)
        if exact is not None:
            return exact
        return next((price for prefix, price in self._prefixes if name.startswith(prefix)), None)


def _by_table(price: Price, usage: Usage) -> int:
    cache_read = price.input if price.cache_read is None else price.cache_read
    cache_write = price.input if price.cache_write is None else price.cache_write
    # Who has no price for writing has none for writing longer.
    surcharge = 0 if price.cache_write is None else HOUR_SURCHARGE * _for_an_hour(usage)
    parts = (
        (usage.input_tokens, price.input),
        (usage.cache_read_tokens, cache_read),
        (usage.cache_write_tokens + surcharge, cache_write),
        (usage.output_tokens, price.output),
    )
    # `str` gives the decimal that was written in the settings, not the binary number next to it.
    return _rounded(sum((count * Decimal(str(dollars)) for count, dollars in parts), Decimal(0)) * NANO_USD_PER_TOKEN)


def _for_an_hour(usage: Usage) -> int:
    """Whatever a service says, no more was written for an hour than was written."""
    return min(usage.cache_write_1h_tokens, usage.cache_write_tokens)


def _rounded(nano_usd: Decimal) -> int:
    """At most what a block can carry, whatever a service says it counted."""
    return min(max(0, int(nano_usd.to_integral_value(ROUND_HALF_EVEN))), MAX_NANO_USD)


@cache
def library() -> Calculate | None:
    """The library's calculation, or nothing where the extra `prices` is not installed."""
    try:
        import genai_prices  # noqa: PLC0415 - an extra that takes 150 ms and brings pydantic
    except ImportError:
        return None

    # To find out that a model is not known takes the library longer than any price.
    unknown: set[tuple[str, str | None, str | None]] = set()

    def calculate(usage: Usage, model: str, provider: str | None, api_url: str | None) -> Decimal | None:
        if (model, provider, api_url) in unknown:
            return None
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        counts = genai_prices.Usage(
            input_tokens=usage.input_tokens + cached,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            cache_write_1h_tokens=_for_an_hour(usage),
            output_tokens=usage.output_tokens,
        )
        try:
            if api_url:
                return genai_prices.calc_price(counts, model, provider_api_url=api_url).total_price
            return genai_prices.calc_price(counts, model, provider_id=provider).total_price
        except LookupError:
            unknown.add((model, provider, api_url))
            return None
        except ValueError:
            return None

    return calculate
