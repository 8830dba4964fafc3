"""Decides how much may be pinned, and which pins end if they no longer fit the model's window."""

from collections.abc import Mapping
from typing import Final

from timeloom.core.view.context.visible import Pin, VisibleView

WINDOW_SHARE: Final = 10
"""Pins may fill one part of so many of the window. A smaller number leaves less room for what is new."""


def max_pinned_tokens(window_tokens: int) -> int:
    """Return how many tokens may be pinned in a window of that size."""
    return window_tokens // WINDOW_SHARE


def free_pin_tokens(visible: VisibleView, path: str, window_tokens: int) -> int:
    """Return how many tokens a pin of this path may have; an earlier pin of the path is replaced."""
    others = sum(pin.tokens for at, pin in visible.pins.items() if at != path)
    return max_pinned_tokens(window_tokens) - others


def find_lapsed_pins(pins: Mapping[str, Pin], max_tokens: int) -> tuple[str, ...]:
    """Return the paths of the oldest pins that must end so that the others have at most `max_tokens` tokens."""
    excess = sum(pin.tokens for pin in pins.values()) - max_tokens
    lapsed: list[str] = []
    for path, pin in pins.items():
        if excess <= 0:
            break
        excess -= pin.tokens
        lapsed.append(path)
    return tuple(lapsed)
