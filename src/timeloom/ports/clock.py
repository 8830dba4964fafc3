"""The clock port: the only way time comes in."""

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day."""

    def epoch_us(self) -> int:
        """Microseconds since 1970 in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def epoch_us(self) -> int:
        return time.time_ns() // 1000


def timestamp(epoch_us: int) -> str:
    """The time as blocks carry it: RFC 3339 in UTC with six decimals, so that text order is time order."""
    seconds, micros = divmod(epoch_us, 1_000_000)
    return f"{_second(seconds)}.{micros:06d}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """Made once: a round asks for the time again and again."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
