"""A clock that a test sets and advances."""

from typing import Final

STARTED_US: Final = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z, the time at which the clock stands by default."""


class FixedClock:
    """A clock that stands still until the test advances it."""

    def __init__(self, epoch_us: int = STARTED_US) -> None:
        self._epoch_us = epoch_us

    def epoch_us(self) -> int:
        return self._epoch_us

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._epoch_us += round(seconds * 1_000_000)
