"""Limits requests, failed authentications and open streams per caller, in bounded memory."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import inf
from typing import Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.platform.token_bucket import TokenBucket

MAX_BUCKETS: Final = 20_000
"""Maximum number of callers counted at once. Fewer let clients with many addresses evade limits; more cost memory."""

MONOTONIC_CLOCK: Final[Callable[[], float]] = time.monotonic


class RateLimitError(CodedError):
    """A rate limit is exceeded; `retry_after_s` is the number of seconds after which a retry may succeed."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__("rate_limited", message)
        self.retry_after_s = retry_after_s


class RateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one caller; infinity is no limit."""

    requests_per_s: float = inf
    burst: float = inf
    failures_per_minute: float = inf
    streams: float = inf
    connections: float = inf
    """For all clients together."""
    connections_per_address: float = inf
    """For connections that have not carried a valid token yet."""
    reruns: float = inf
    all_reruns: float = inf
    head_s: float = 10.0
    body_s: float = 30.0


class TokenBuckets:
    """One token bucket per key, refilled over time; the least recently used bucket is evicted."""

    def __init__(
        self, per_s: float, burst: float, uptime: Callable[[], float] = MONOTONIC_CLOCK, most_keys: int = MAX_BUCKETS
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._uptime = uptime
        self._most_keys = most_keys
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take_token(self, key: str) -> float:
        """Take a token and return 0; if there is none, return the seconds until there is one."""
        if self._per_s == inf:
            return 0.0
        return self._find_bucket(key).take_token(self._uptime())

    def __len__(self) -> int:
        return len(self._buckets)

    def _find_bucket(self, key: str) -> TokenBucket:
        """Return the bucket of the key, which is now the most recently used."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._burst, self._per_s)
            if len(self._buckets) > self._most_keys:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket


class RateLimiter:
    """Rejects callers with too many requests, failed authentications or open streams."""

    def __init__(self, limits: RateLimits | None = None, uptime: Callable[[], float] = MONOTONIC_CLOCK) -> None:
        self.limits = limits or RateLimits()
        self._requests = TokenBuckets(self.limits.requests_per_s, self.limits.burst, uptime)
        per_minute = self.limits.failures_per_minute
        self._failures = TokenBuckets(per_minute / 60, max(1.0, per_minute), uptime)
        self._streams: Counter[str] = Counter()

    def count_failure(self, address: str) -> None:
        """Count a request without a valid token; raise if that address sent too many."""
        if wait_s := self._failures.take_token(address):
            raise RateLimitError("too many requests without a valid token from this address; try later", wait_s)

    def count_request(self, caller: str) -> None:
        """Count a request; raise if the caller sent too many."""
        if wait_s := self._requests.take_token(caller):
            raise RateLimitError("too many requests; try again later", wait_s)

    @property
    def open_streams(self) -> int:
        """The number of open streams of all callers."""
        return self._streams.total()

    def check_streams(self, caller: str) -> None:
        """Raise if the caller has as many open streams as allowed."""
        if self._streams[caller] >= self.limits.streams:
            raise RateLimitError(f"too many open streams; the limit is {self.limits.streams:.0f}", STREAM_RETRY_S)

    @contextmanager
    def count_stream(self, caller: str) -> Generator[None]:
        """Count a stream of the caller while the context is open."""
        self._streams[caller] += 1
        try:
            yield
        finally:
            self._streams[caller] -= 1
            if not self._streams[caller]:
                del self._streams[caller]


STREAM_RETRY_S: Final = 5.0
"""Seconds after which to retry when all streams are in use; the time when one ends is unknown, so this is a guess."""
