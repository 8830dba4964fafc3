"""A pace: many may come at once, and then only so many a second, so that who never stops takes no processor."""

from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """Says how long each who comes is to wait."""

    burst: float
    """How many need not wait, if nobody came for a while."""

    per_s: float
    _ahead: float = 0.0
    _at_s: float = 0.0

    def wait_s(self, now_s: float, weight: float = 1.0) -> float:
        """The seconds that this one waits, whose coming counts as so many."""
        self._ahead = max(0.0, self._ahead - (now_s - self._at_s) * self.per_s) + weight
        self._at_s = now_s
        return max(0.0, self._ahead - self.burst) / self.per_s
