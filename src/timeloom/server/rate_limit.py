"""Limits: how often and how much each caller may ask, counted in a table that does not grow without bound."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Final

import msgspec

from timeloom.core.codes import CodedError

MOST_KEYS: Final = 20_000
"""How many callers are counted at once. Less forgets sooner who sends from many addresses; more is memory."""

UPTIME: Final[Callable[[], float]] = time.monotonic


class LimitedError(CodedError):
    """Somebody asks too often; `retry_after_s` says when it is worth another try."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__("rate_limited", message)
        self.retry_after_s = retry_after_s


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one caller may ask for; infinite is no limit."""

    requests_per_s: float = inf
    burst: float = inf
    failures_per_minute: float = inf
    streams: float = inf
    reruns: float = inf
    all_reruns: float = inf
    head_s: float = 10.0
    body_s: float = 30.0


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class Buckets:
    """A bucket of tokens for each key, which fill again with time; the one least recently used is forgotten."""

    def __init__(
        self, per_s: float, burst: float, uptime: Callable[[], float] = UPTIME, most_keys: int = MOST_KEYS
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._uptime = uptime
        self._most_keys = most_keys
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, key: str) -> float:
        """Takes a token and returns 0, or takes nothing and returns how long until there is one."""
        if self._per_s == inf:
            return 0.0
        bucket = self._filled(key)
        if bucket.left < 1:
            return (1 - bucket.left) / self._per_s
        bucket.left -= 1
        return 0.0

    def __len__(self) -> int:
        return len(self._buckets)

    def _filled(self, key: str) -> _Bucket:
        now = self._uptime()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._burst, now)
            if len(self._buckets) > self._most_keys:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        bucket.left = min(self._burst, bucket.left + (now - bucket.at_s) * self._per_s)
        bucket.at_s = now
        return bucket


class Gate:
    """Refuses who asks too often, guesses tokens, or has too many streams open."""

    def __init__(self, limits: Limits | None = None, uptime: Callable[[], float] = UPTIME) -> None:
        self.limits = limits or Limits()
        self._requests = Buckets(self.limits.requests_per_s, self.limits.burst, uptime)
        per_minute = self.limits.failures_per_minute
        self._failures = Buckets(per_minute / 60, max(1.0, per_minute), uptime)
        self._streams: Counter[str] = Counter()

    def failed(self, address: str) -> None:
        """Counts a request without a known token; raises where too many came from there."""
        if waits_s := self._failures.take(address):
            raise LimitedError("too many requests without a known token came from this address", waits_s)

    def passed(self, caller: str) -> None:
        """Counts a request; raises where there were too many."""
        if waits_s := self._requests.take(caller):
            raise LimitedError("too many requests in a short time", waits_s)

    @property
    def open_streams(self) -> int:
        """How many streams are open."""
        return self._streams.total()

    def check_streams(self, caller: str) -> None:
        """Raises where the caller has as many streams open as it may."""
        if self._streams[caller] >= self.limits.streams:
            raise LimitedError(f"at most {self.limits.streams:.0f} streams may be open at once", STREAM_RETRY_S)

    @contextmanager
    def streaming(self, caller: str) -> Generator[None]:
        """Counts a stream for as long as it lasts."""
        self._streams[caller] += 1
        try:
            yield
        finally:
            self._streams[caller] -= 1
            if not self._streams[caller]:
                del self._streams[caller]


STREAM_RETRY_S: Final = 5.0
"""When to try again where one's streams are all in use: nobody knows when one of them ends."""
