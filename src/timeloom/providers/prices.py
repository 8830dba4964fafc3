"""Calculates the cost of a model call from configured prices or with the genai-prices library."""

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
"""One dollar per million tokens, in billionths of a dollar per token."""

HOUR_SURCHARGE: Final = Decimal("0.6")
"""Surcharge for a token cached for an hour, as a share of the price of a token cached for five minutes."""

Calculate = Callable[[Usage, str, str | None, str | None], Decimal | None]


class Cost(msgspec.Struct, frozen=True):
    """The cost of a call; 0 and not `known` if the model has no known price."""

    nano_usd: int
    known: bool


class Prices:
    """Prices of models: first the overrides, whose names may end in `*`, then the library if it is installed."""

    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self._exact = {name: price for name, price in (overrides or {}).items() if not name.endswith("*")}
        prefixes = {name[:-1]: price for name, price in (overrides or {}).items() if name.endswith("*")}
        self._prefixes = sorted(prefixes.items(), key=lambda item: -len(item[0]))

    def preload_library(self) -> None:
        """Start to load the library in a thread, because it takes about 150 ms."""
        if load_library.cache_info().currsize == 0:
            threading.Thread(target=load_library, name="timeloom-prices", daemon=True).start()

    def cost(self, name: str, usage: Usage, *, api_url: str | None = None, provider: str = "") -> Cost:
        """Return the cost of a call to this model.

        `api_url` is the service's URL if it is not the provider itself, and `provider` its id in the library if that is
        not the prefix of the name.
        """
        override = self._override(name)
        if override is not None:
            return Cost(_cost_from_price(override, usage), known=True)
        prefix, _, model = name.partition(":")
        calculate = load_library()
        dollars = calculate(usage, model, None if api_url else provider or prefix, api_url) if calculate else None
        if dollars is None:
            return Cost(0, known=False)
        return Cost(_to_nano_usd(dollars * NANO_USD), known=True)

    def _override(self, name: str) -> Price | None:
        exact = self._exact.get(name)
        if exact is not None:
            return exact
        return next((price for prefix, price in self._prefixes if name.startswith(prefix)), None)


def _cost_from_price(price: Price, usage: Usage) -> int:
    cache_read = price.input if price.cache_read is None else price.cache_read
    cache_write = price.input if price.cache_write is None else price.cache_write
    # Without a price for cache writes there is no surcharge for longer ones.
    surcharge = 0 if price.cache_write is None else HOUR_SURCHARGE * _hour_cached_tokens(usage)
    parts = (
        (usage.input_tokens, price.input),
        (usage.cache_read_tokens, cache_read),
        (usage.cache_write_tokens + surcharge, cache_write),
        (usage.output_tokens, price.output),
    )
    # `str` gives the decimal as written in the settings, not its nearest binary number.
    return _to_nano_usd(
        sum((count * Decimal(str(dollars)) for count, dollars in parts), Decimal(0)) * NANO_USD_PER_TOKEN
    )


def _hour_cached_tokens(usage: Usage) -> int:
    """Return the tokens cached for an hour, at most all cached tokens, because a service may report more."""
    return min(usage.cache_write_1h_tokens, usage.cache_write_tokens)


def _to_nano_usd(nano_usd: Decimal) -> int:
    """Round to an integer within the range that a block can store, because a service may report any count."""
    return min(max(0, int(nano_usd.to_integral_value(ROUND_HALF_EVEN))), MAX_NANO_USD)


@cache
def load_library() -> Calculate | None:
    """Return the library's calculation; None if the extra `prices` is not installed."""
    try:
        import genai_prices  # noqa: PLC0415 - an extra that takes 150 ms and brings pydantic
    except ImportError:
        return None

    # The library is slowest for unknown models, so they are remembered.
    unknown: set[tuple[str, str | None, str | None]] = set()

    def calculate(usage: Usage, model: str, provider: str | None, api_url: str | None) -> Decimal | None:
        if (model, provider, api_url) in unknown:
            return None
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        counts = genai_prices.Usage(
            input_tokens=usage.input_tokens + cached,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            cache_write_1h_tokens=_hour_cached_tokens(usage),
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
