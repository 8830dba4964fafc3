"""A token bucket: allows a burst, then limits the rate."""

from dataclasses import dataclass


@dataclass(slots=True)
class TokenBucket:
    """Returns the delay of each request, so that a client that never stops cannot use up the processor."""

    burst: float
    """How many requests need not wait after a quiet period."""

    per_s: float
    _ahead: float = 0.0
    _at_s: float = 0.0

    def wait_s(self, now_s: float, weight: float = 1.0) -> float:
        """Return the seconds that a request of this weight must wait."""
        self._ahead = max(0.0, self._ahead - (now_s - self._at_s) * self.per_s) + weight
        self._at_s = now_s
        return max(0.0, self._ahead - self.burst) / self.per_s
