"""The clock port: the only source of the current time."""

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Returns the current time."""

    def epoch_us(self) -> int:
        """Return microseconds since 1970 in UTC."""
        ...


class SystemClock:
    """The clock of the machine."""

    def epoch_us(self) -> int:
        return time.time_ns() // 1000


def timestamp(epoch_us: int) -> str:
    """Return the time in the format of blocks: RFC 3339 in UTC with six decimals, so text order is time order."""
    seconds, micros = divmod(epoch_us, 1_000_000)
    return f"{_second(seconds)}.{micros:06d}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """Return the text of a full second; cached, because a round asks for the time repeatedly."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
