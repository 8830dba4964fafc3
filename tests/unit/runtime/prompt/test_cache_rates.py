"""The rates of a model's cache: by its own prices where those are known."""

import pytest

from timeloom.core.blocks import Usage
from timeloom.core.blocks.caching import CacheRates
from timeloom.providers.prices import Prices
from timeloom.providers.settings import Price
from timeloom.runtime.prompt.cache_rates import cache_rates
from timeloom.testing import ScriptedModel


class PricedModel(ScriptedModel):
    """A scripted model with prices."""

    def __init__(self, prices: Prices) -> None:
        super().__init__([], name="anthropic:claude-sonnet-4-5")
        self._prices = prices

    def price_nano_usd(self, usage: Usage) -> int | None:
        cost = self._prices.cost(self.name, usage)
        return cost.nano_usd if cost.known else None


def test_the_usual_rates_hold_where_nobody_knows_prices() -> None:
    assert cache_rates(ScriptedModel([])) == CacheRates()
    assert cache_rates(PricedModel(Prices({"anthropic:*": Price(input=0, output=0)}))) == CacheRates()


def test_the_prices_of_a_model_make_its_rates() -> None:
    known = cache_rates(PricedModel(Prices()))
    assert (known.read, known.write_5m, known.write_1h) == pytest.approx((0.1, 1.25, 2.0))
    table = Prices({"anthropic:*": Price(input=2, output=9, cache_read=1, cache_write=4)})
    assert cache_rates(PricedModel(table)) == CacheRates(read=0.5, write_5m=2.0, write_1h=3.2)
