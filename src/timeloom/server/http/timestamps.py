"""Validates the timestamps that clients send."""

from datetime import UTC, datetime, timedelta
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.core.timeline import is_timestamp
from timeloom.ports.clock import Clock

MAX_CLOCK_SKEW: Final = timedelta(days=1)
"""How far a client's clock may be ahead. Less rejects clients with a wrong time zone; more accepts obvious mistakes."""


def check_period(start: str, end: str) -> None:
    """Raise if one of them is not a timestamp or the period ends before it starts."""
    for name, value in (("start", start), ("end", end)):
        _parse_timestamp(name, value)
    if _sort_key(start) > _sort_key(end):
        raise CodedError("request_malformed", f"end must not be before start, got {start[:40]} to {end[:40]}")


def check_past(name: str, value: str, clock: Clock) -> None:
    """Raise if the value is not a timestamp or lies in the future."""
    now = datetime.fromtimestamp(clock.epoch_us() / 1_000_000, UTC)
    if _parse_timestamp(name, value) > now + MAX_CLOCK_SKEW:
        raise CodedError("request_malformed", f"{name} must not be in the future, got {value[:40]}")


def _sort_key(value: str) -> tuple[str, str]:
    """Return a sort key for a timestamp: its text up to the second, and its fraction of any length."""
    return value[:19], value[19:].strip(".Z").rstrip("0")


def _parse_timestamp(name: str, value: str) -> datetime:
    error = CodedError(
        "request_malformed", f"{name} must be RFC 3339 in UTC such as 2026-02-09T02:14:32.676425Z, got {value[:40]!r}"
    )
    if not is_timestamp(value):
        raise error
    try:
        # The fraction may have more digits than datetime supports, so it is dropped.
        return datetime.fromisoformat(f"{value[:19]}+00:00")
    except ValueError:
        raise error from None
