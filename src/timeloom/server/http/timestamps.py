"""Validates the timestamps that clients send."""

from datetime import UTC, datetime, timedelta
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.core.timeline import is_timestamp
from timeloom.ports.clock import Clock

AHEAD: Final = timedelta(days=1)
"""How far a client's clock may be ahead. Less rejects clients with a wrong time zone; more accepts obvious mistakes."""


def need_period(start: str, end: str) -> None:
    """Raise if one of them is not a timestamp or the period ends before it starts."""
    for name, said in (("start", start), ("end", end)):
        _read(name, said)
    if _ordered(start) > _ordered(end):
        raise CodedError("request_malformed", f"end must not be before start, got {start[:40]} to {end[:40]}")


def need_past(name: str, said: str, clock: Clock) -> None:
    """Raise if the value is not a timestamp or lies in the future."""
    now = datetime.fromtimestamp(clock.epoch_us() / 1_000_000, UTC)
    if _read(name, said) > now + AHEAD:
        raise CodedError("request_malformed", f"{name} must not be in the future, got {said[:40]}")


def _ordered(said: str) -> tuple[str, str]:
    """Return a key that sorts like the time, including fractions beyond microseconds: the second and its fraction."""
    return said[:19], said[19:].strip(".Z").rstrip("0")


def _read(name: str, said: str) -> datetime:
    wrong = CodedError(
        "request_malformed", f"{name} must be RFC 3339 in UTC such as 2026-02-09T02:14:32.676425Z, got {said[:40]!r}"
    )
    if not is_timestamp(said):
        raise wrong
    try:
        # The fraction may have more digits than datetime supports, so it is dropped.
        return datetime.fromisoformat(f"{said[:19]}+00:00")
    except ValueError:
        raise wrong from None
