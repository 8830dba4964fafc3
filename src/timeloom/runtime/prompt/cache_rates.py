"""Computes the cost of cached tokens relative to plain input tokens from a model's prices."""

from typing import Final

from timeloom.core.blocks import Usage
from timeloom.core.blocks.caching import CacheRates
from timeloom.ports.model import Model, as_priced_model

SAMPLE_TOKENS: Final = 1_000
"""Number of tokens priced as a sample; few enough that no model applies its price for long prompts."""


def cache_rates(model: Model) -> CacheRates:
    """Return the rates from the model's prices; the default rates if its prices are unknown or zero."""
    priced = as_priced_model(model)
    if priced is None:
        return CacheRates()
    plain = priced.price_nano_usd(Usage(input_tokens=SAMPLE_TOKENS))
    read = priced.price_nano_usd(Usage(cache_read_tokens=SAMPLE_TOKENS))
    written = priced.price_nano_usd(Usage(cache_write_tokens=SAMPLE_TOKENS))
    longer = priced.price_nano_usd(Usage(cache_write_tokens=SAMPLE_TOKENS, cache_write_1h_tokens=SAMPLE_TOKENS))
    if not plain or read is None or written is None or longer is None:
        return CacheRates()
    return CacheRates(read=read / plain, write_5m=written / plain, write_1h=longer / plain)
