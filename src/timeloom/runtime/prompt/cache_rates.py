"""The rates of a model's cache: what cached tokens cost beside others, by the prices that are known of it."""

from typing import Final

from timeloom.core.blocks import Usage
from timeloom.core.blocks.caching import CacheRates
from timeloom.ports.model import Model, as_priced

SAMPLE_TOKENS: Final = 1_000
"""How many tokens are priced. So few that no model has a price of its own for long prompts."""


def cache_rates(model: Model) -> CacheRates:
    """The rates by the model's prices; the usual ones where its prices are not known, or where it asks none."""
    priced = as_priced(model)
    if priced is None:
        return CacheRates()
    plain = priced.price_nano_usd(Usage(input_tokens=SAMPLE_TOKENS))
    read = priced.price_nano_usd(Usage(cache_read_tokens=SAMPLE_TOKENS))
    written = priced.price_nano_usd(Usage(cache_write_tokens=SAMPLE_TOKENS))
    longer = priced.price_nano_usd(Usage(cache_write_tokens=SAMPLE_TOKENS, cache_write_1h_tokens=SAMPLE_TOKENS))
    if not plain or read is None or written is None or longer is None:
        return CacheRates()
    return CacheRates(read=read / plain, write_5m=written / plain, write_1h=longer / plain)
