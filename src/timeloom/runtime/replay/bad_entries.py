"""Tracks visible entries that make a faithful rebuild of prompts impossible."""

from collections import deque

from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views
from timeloom.ports.store import StoreProblem


class BadEntries:
    """Entries with a finding that affects every prompt while they are visible."""

    def __init__(self, views: Views) -> None:
        self._visible = views.visible
        self._bad: deque[tuple[int, int, StoreProblem]] = deque()

    def add(self, entry: Entry, finding: StoreProblem) -> None:
        """Add an entry that the views already contain."""
        # A summary is shown at the position of the first entry it covers.
        place = entry.seq if entry.seq in self._visible.shown else self._visible.summaries.get(entry.path, (0, 0))[1]
        self._bad.append((entry.seq, place, finding))

    def first_visible_problem(self) -> StoreProblem | None:
        """Return the finding of the oldest visible entry; entries that are no longer visible never reappear."""
        while self._bad:
            seq, place, finding = self._bad[0]
            if self._is_shown(seq, place):
                return finding
            self._bad.popleft()
        return None

    def _is_shown(self, seq: int, place: int) -> bool:
        if place not in self._visible.shown:
            return False
        stand = self._visible.shown[place]
        return stand.by == seq if stand else place == seq
