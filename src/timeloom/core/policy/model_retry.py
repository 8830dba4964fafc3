"""Retries of failed model requests: which errors are retried, and after how long."""

from typing import Final

RETRIED_ERRORS: Final = frozenset({"overloaded", "rate_limited", "unreachable", "timeout", "cut"})
"""Provider errors after which the same request is sent again, because it may succeed later. After `context_too_long`
only a smaller request may succeed."""

MAX_RETRY_AFTER_S: Final = 300.0
"""Longest pause that a provider may ask for. A longer one, such as a day for an exhausted quota, would hold the turn
while its user waits for nothing; the call then fails at once. A shorter limit gives up at ordinary rate limits."""

BACKOFF_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds to wait before each retry if the provider does not name a delay."""


def retry_delay_s(failures: int, retry_after_s: float | None, backoff: tuple[float, ...] = BACKOFF_S) -> float:
    """Return the seconds to wait before the next request after that many consecutive failures."""
    if not failures:
        return 0.0
    return retry_after_s or backoff[min(failures, len(backoff)) - 1]
