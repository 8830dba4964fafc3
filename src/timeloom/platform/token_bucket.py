"""A token bucket: allows a burst, then limits the rate."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class TokenBucket:
    """Limits the rate of requests: `wait_s` delays them, `take_token` rejects them."""

    burst: float
    """How many requests are allowed at once after a quiet period."""

    per_s: float
    _left: float = field(init=False)
    _at_s: float = 0.0

    def __post_init__(self) -> None:
        self._left = self.burst

    def wait_s(self, now_s: float, weight: float = 1.0) -> float:
        """Count a request of this weight and return the seconds that it must wait."""
        self._refill(now_s)
        self._left -= weight
        return max(0.0, -self._left) / self.per_s

    def take_token(self, now_s: float) -> float:
        """Take a token and return 0; if there is none, return the seconds until there is one."""
        self._refill(now_s)
        if self._left < 1:
            return (1 - self._left) / self.per_s
        self._left -= 1
        return 0.0

    def _refill(self, now_s: float) -> None:
        self._left = min(self.burst, self._left + (now_s - self._at_s) * self.per_s)
        self._at_s = now_s
