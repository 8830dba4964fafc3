"""Pins: how many tokens may be pinned, and which pins end."""

import pytest

from timeloom.core.policy.pins import find_lapsed_pins, free_pin_tokens, max_pinned_tokens
from timeloom.core.view.context.visible import Pin, VisibleView

PINS = {path: Pin(9, (n,), tokens) for n, (path, tokens) in enumerate({"a": 50, "b": 30, "c": 20}.items(), 2)}


def test_pins_may_have_a_tenth_of_the_window() -> None:
    assert max_pinned_tokens(200_000) == 20_000
    assert free_pin_tokens(VisibleView(pins=PINS), "d", 2_000) == 100
    assert free_pin_tokens(VisibleView(pins=PINS), "a", 2_000) == 150


@pytest.mark.parametrize(("most", "lapsed"), [(100, ()), (99, ("a",)), (50, ("a",)), (49, ("a", "b")), (0, (*PINS,))])
def test_the_oldest_pins_end_until_the_others_fit(most: int, lapsed: tuple[str, ...]) -> None:
    assert find_lapsed_pins(PINS, most) == lapsed
