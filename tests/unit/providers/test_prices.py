"""What calls cost."""

import sys

import pytest

from timeloom.core.blocks import Usage
from timeloom.providers import prices
from timeloom.providers.prices import Cost, Prices
from timeloom.providers.settings import Price

USAGE = Usage(input_tokens=50, cache_read_tokens=900, cache_write_tokens=50, output_tokens=10)


def test_the_library_knows_prices_with_cached_tokens() -> None:
    # 50 x 3 + 900 x 0.30 + 50 x 3.75 + 10 x 15 dollars per million
    assert Prices().cost("anthropic:claude-sonnet-4-5", USAGE) == Cost(757_500, known=True)


def test_a_service_of_another_address_has_prices_of_its_own() -> None:
    usage = Usage(input_tokens=100, cache_read_tokens=900, output_tokens=10)
    assert Prices().cost("openai:gpt-4o", usage, api_url="https://api.openai.com/v1") == Cost(1_475_000, known=True)
    assert Prices().cost("openai:gpt-4o", usage, api_url="http://127.0.0.1:8000/v1") == Cost(0, known=False)


def test_a_model_that_nobody_knows_costs_nothing_and_is_said_to_be_unknown() -> None:
    assert Prices().cost("anthropic:nobody-knows-it", USAGE) == Cost(0, known=False)


def test_overrides_come_first_and_the_longest_prefix_wins() -> None:
    table = Prices(
        {
            "openai:*": Price(input=1, output=2),
            "openai:gpt-*": Price(input=0.1, output=0.3, cache_read=0.01, cache_write=0.2),
            "openai:gpt-4o": Price(input=0, output=0),
        }
    )
    assert table.cost("openai:gpt-4o", USAGE) == Cost(0, known=True)
    assert table.cost("openai:gpt-5", USAGE) == Cost(5_000 + 9_000 + 10_000 + 3_000, known=True)
    assert table.cost("openai:other", USAGE) == Cost(1_000_000 + 20_000, known=True)


LONGER = Usage(cache_write_tokens=100, cache_write_1h_tokens=40)


def test_what_is_kept_for_an_hour_costs_more() -> None:
    # 60 x 3.75 + 40 x 6 dollars per million
    assert Prices().cost("anthropic:claude-sonnet-4-5", LONGER) == Cost(465_000, known=True)
    table = Prices({"a:*": Price(input=3, output=15, cache_write=3.75), "b:*": Price(input=3, output=15)})
    assert table.cost("a:m", LONGER) == Cost(465_000, known=True)
    assert table.cost("b:m", LONGER) == Cost(300_000, known=True)
    more = Usage(cache_write_tokens=100, cache_write_1h_tokens=9_000)
    assert table.cost("a:m", more) == Cost(600_000, known=True)


def test_a_count_that_makes_no_sense_costs_what_a_block_can_carry() -> None:
    table = Prices({"openai:m": Price(input=10, output=10)})
    assert table.cost("openai:m", Usage(input_tokens=2**53 - 1)) == Cost(2**53 - 1, known=True)


def test_without_the_library_only_the_table_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    prices.load_library.cache_clear()
    table = Prices({"anthropic:a": Price(input=1, output=1)})
    try:
        assert table.cost("anthropic:claude-sonnet-4-5", USAGE) == Cost(0, known=False)
        assert table.cost("anthropic:a", USAGE).known
    finally:
        prices.load_library.cache_clear()


def test_warming_up_twice_is_harmless() -> None:
    table = Prices()
    table.preload_library()
    assert table.cost("anthropic:claude-sonnet-4-5", USAGE).known
    table.preload_library()
