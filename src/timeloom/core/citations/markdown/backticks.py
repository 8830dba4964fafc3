"""Indexes backtick runs to find where an inline code span ends."""

import re
from collections import deque
from typing import Final

from timeloom.core.citations.markdown.grammar import NEED_MORE, NO_MATCH

_RUN: Final = re.compile("`++")


class BacktickRuns:
    """Backtick runs of a growing text by length, so that no search reads the text again."""

    def __init__(self) -> None:
        self._length = 0
        self._passed = 0
        self._starts: dict[int, deque[int]] = {}
        self._open: int | None = None
        self._final = False

    def extend(self, text: str, passed: int) -> None:
        """Add text; runs before `passed` will not be requested."""
        self._passed = passed
        if self._open is not None and not text.startswith("`"):
            self._record(self._open, self._length)
        for run in _RUN.finditer(text):
            start = self._length + run.start() if self._open is None else self._open
            self._open = start
            if run.end() < len(text):
                self._record(start, self._length + run.end())
        self._length += len(text)

    def finish(self) -> None:
        """Mark the text as complete."""
        if self._open is not None:
            self._record(self._open, self._length)
        self._final = True

    def find_closing(self, after: int, length: int, limit: int) -> int:
        """Return the start of the first run of this length from `after` to `limit`; else `NEED_MORE` or `NO_MATCH`."""
        starts = self._starts.get(length, deque[int]())
        while starts and starts[0] < after:
            starts.popleft()
        if starts and starts[0] <= limit:
            return starts[0]
        growing = self._open is not None and after <= self._open <= limit and self._length - self._open <= length
        return NEED_MORE if not self._final and (self._length <= limit or growing) else NO_MATCH

    def _record(self, start: int, end: int) -> None:
        starts = self._starts.setdefault(end - start, deque())
        while starts and starts[0] < self._passed:
            starts.popleft()
        starts.append(start)
        self._open = None
