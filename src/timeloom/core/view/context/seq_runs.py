"""A growing set of seqs, kept as runs of consecutive numbers."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import msgspec


class SeqRuns(msgspec.Struct):
    """Seqs in ascending order; memory and search depend on the number of runs, not on the number of seqs."""

    firsts: list[int] = []
    lasts: list[int] = []

    @property
    def last(self) -> int:
        """The last seq; 0 if there is none."""
        return self.lasts[-1] if self.lasts else 0

    def append(self, seq: int) -> None:
        """Add a seq after all others."""
        lasts = self.lasts
        if lasts and lasts[-1] + 1 == seq:
            lasts[-1] = seq
        else:
            self.firsts.append(seq)
            lasts.append(seq)

    def remove(self, seqs: Sequence[int]) -> None:
        """Remove these seqs, which are in ascending order and in the set."""
        start = 0
        while start < len(seqs):
            end = start
            while end + 1 < len(seqs) and seqs[end + 1] == seqs[end] + 1:
                end += 1
            self._remove_run(seqs[start], seqs[end])
            start = end + 1

    def between(self, first: int, last: int) -> list[int]:
        """Return the seqs of the range, in order; the cost is linear in them."""
        found: list[int] = []
        for index in range(bisect_left(self.lasts, first), bisect_right(self.firsts, last)):
            found += range(max(first, self.firsts[index]), min(last, self.lasts[index]) + 1)
        return found

    def copy(self) -> "SeqRuns":
        """Return the same seqs as another set."""
        return SeqRuns(self.firsts.copy(), self.lasts.copy())

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the last seq of each run."""
        return zip(self.firsts, self.lasts, strict=True)

    def __contains__(self, seq: int) -> bool:
        index = bisect_left(self.lasts, seq)
        return index < len(self.lasts) and self.firsts[index] <= seq

    def __iter__(self) -> Iterator[int]:
        for first, last in self.pairs():
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.pairs())

    def _remove_run(self, first: int, last: int) -> None:
        """Remove consecutive seqs, which always lie in one run."""
        index = bisect_left(self.lasts, last)
        begins, ends = self.firsts[index], self.lasts[index]
        kept = [(begins, first - 1)] if begins < first else []
        kept += [(last + 1, ends)] if last < ends else []
        self.firsts[index : index + 1] = [one for one, _ in kept]
        self.lasts[index : index + 1] = [one for _, one in kept]
