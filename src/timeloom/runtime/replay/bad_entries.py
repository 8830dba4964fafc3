"""A lookout for entries that spoil prompts for as long as they are in sight."""

from collections import deque

from timeloom.core.timeline import Entry
from timeloom.core.view.views import Views
from timeloom.ports.store import Finding


class Lookout:
    """Entries that spoil every prompt for as long as they are in sight, each with what is wrong with it."""

    def __init__(self, views: Views) -> None:
        self._visible = views.visible
        self._found: deque[tuple[int, int, Finding]] = deque()

    def add(self, entry: Entry, finding: Finding) -> None:
        """Takes in an entry that the views have taken in."""
        # A summary stands where the first of what it covers was.
        place = entry.seq if entry.seq in self._visible.shown else self._visible.summaries.get(entry.path, (0, 0))[1]
        self._found.append((entry.seq, place, finding))

    def first(self) -> Finding | None:
        """What is wrong with the oldest of them in sight; one that went out of sight never comes back."""
        while self._found:
            seq, place, finding = self._found[0]
            if self._is_shown(seq, place):
                return finding
            self._found.popleft()
        return None

    def _is_shown(self, seq: int, place: int) -> bool:
        if place not in self._visible.shown:
            return False
        stand = self._visible.shown[place]
        return stand.by == seq if stand else place == seq
