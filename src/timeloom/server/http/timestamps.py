"""Times that clients send: days that a calendar has, and none that are far ahead where something has happened."""

from datetime import UTC, datetime, timedelta
from typing import Final

from timeloom.core.codes import CodedError
from timeloom.core.timeline import is_timestamp
from timeloom.ports.clock import Clock

AHEAD: Final = timedelta(days=1)
"""How far a client's clock may be ahead. Less refuses those with a wrong zone; more lets in what nobody can mean."""


def need_period(start: str, end: str) -> None:
    """Raises where one of them is no time, or where it ends before it starts."""
    for name, said in (("start", start), ("end", end)):
        _read(name, said)
    if _ordered(start) > _ordered(end):
        raise CodedError("request_malformed", f"end is not before start, got {start[:40]} to {end[:40]}")


def need_past(name: str, said: str, clock: Clock) -> None:
    """Raises where it is no time, or one that has not come yet."""
    now = datetime.fromtimestamp(clock.epoch_us() / 1_000_000, UTC)
    if _read(name, said) > now + AHEAD:
        raise CodedError("request_malformed", f"{name} is when it happened, and {said[:40]} has not come yet")


def _ordered(said: str) -> tuple[str, str]:
    """The time as texts that are compared as times are: the second and its fraction."""
    return said[:19], said[19:].strip(".Z").rstrip("0")


def _read(name: str, said: str) -> datetime:
    wrong = CodedError(
        "request_malformed", f"{name} is RFC 3339 in UTC such as 2026-02-09T02:14:32.676425Z, got {said[:40]!r}"
    )
    if not is_timestamp(said):
        raise wrong
    try:
        # Of a fraction only what there is room for.
        return datetime.fromisoformat(f"{said[:19]}+00:00")
    except ValueError:
        raise wrong from None
