"""Selections by number: sources `so:sources_pool[1,3-5]`, entries `ar:log[12-20]` and turns `ar:turns[3]…`."""

import re
from collections.abc import Iterable
from typing import ClassVar, Self

import msgspec

from timeloom.core.paths.errors import PathError, quote_prefix

MAX_SID = 999_999
"""Largest source id. A smaller limit cuts off large pools, whose rows could not be cited; a larger one makes full
selections too long to parse."""

MAX_SELECTED = 500
"""Most numbers in one selection. A smaller limit refuses reads of a whole pool; a larger one lets short text cause much
work."""

_ITEM = re.compile(r" *([0-9]+) *(?:- *([0-9]+) *)?")


class _Selection(msgspec.Struct, frozen=True, tag=True, tag_field="form"):
    """Inclusive ranges in ascending order with gaps between them; `from_numbers` builds them from any numbers."""

    ranges: tuple[tuple[int, int], ...]

    what: ClassVar[str]
    largest: ClassVar[int]
    before: ClassVar[str]
    after: ClassVar[str] = "]"

    def __post_init__(self) -> None:
        if not self.ranges:
            raise PathError("path_malformed", f"a selection names at least one {self.what}")
        end = -1
        for first, last in self.ranges:
            self._check_range(first, last)
            if first <= end + 1:
                raise PathError("path_malformed", "a selection's ranges ascend and do not touch each other")
            end = last
        if sum(last - first + 1 for first, last in self.ranges) > MAX_SELECTED:
            raise PathError("range_too_large", f"a selection names at most {MAX_SELECTED} {self.what}s")

    def __str__(self) -> str:
        items = (f"{first:d}" if first == last else f"{first:d}-{last:d}" for first, last in self.ranges)
        return f"{self.before}{','.join(items)}{self.after}"

    @classmethod
    def from_numbers(cls, numbers: Iterable[int]) -> Self:
        """Return the selection of these numbers, given in any order and with repetitions."""
        return cls._from_ranges([(number, number) for number in numbers])

    @classmethod
    def parse_ranges(cls, text: str) -> Self:
        """Parse the text between the brackets, such as `1,3-5`."""
        return cls._from_ranges([cls._parse_range(item) for item in text.split(",")])

    @property
    def numbers(self) -> tuple[int, ...]:
        """The selected numbers, ascending."""
        return tuple(number for first, last in self.ranges for number in range(first, last + 1))

    @classmethod
    def _from_ranges(cls, ranges: list[tuple[int, int]]) -> Self:
        merged: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            # Check before merging: a reversed range would disappear in its neighbour.
            cls._check_range(first, last)
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    @classmethod
    def _parse_range(cls, item: str) -> tuple[int, int]:
        found = _ITEM.fullmatch(item)
        if not found:
            raise PathError("path_malformed", f"a selection is like 1,3-5, got the item {quote_prefix(item)}")
        first, last = found[1], found[2] or found[1]
        if max(len(first), len(last)) > len(str(cls.largest)):
            raise cls._too_large_error()
        return int(first), int(last)

    @classmethod
    def _check_range(cls, first: int, last: int) -> None:
        if max(first, last) > cls.largest:
            raise cls._too_large_error()
        if first < 1 or last < 1:
            raise PathError("path_malformed", f"a range of {cls.what}s starts at 1 or more")
        if first > last:
            raise PathError("path_malformed", f"a range of {cls.what}s ascends, got {first}-{last}")

    @classmethod
    def _too_large_error(cls) -> PathError:
        return PathError("range_too_large", f"a {cls.what} is at most {cls.largest}")


class SourcesPath(_Selection, frozen=True):
    """`so:sources_pool[1,3-5]`: rows of the sources pool."""

    what = "source id"
    largest = MAX_SID
    before = "so:sources_pool["

    @property
    def sids(self) -> tuple[int, ...]:
        """The selected source ids, ascending."""
        return self.numbers


class EntriesPath(_Selection, frozen=True):
    """`ar:log[12,15-20]`: entries by seq, also those that later entries hide from prompts."""

    what = "place"
    largest = 999_999_999
    before = "ar:log["


class TurnIndexesPath(_Selection, frozen=True):
    """`ar:turns[3,5-7].react.turn.index`: the indexes of turns; the first turn is 1."""

    what = "turn"
    largest = 9_999_999
    before = "ar:turns["
    after = "].react.turn.index"


def select_sources(sids: Iterable[int]) -> SourcesPath:
    """Return the selection of these source ids, given in any order and with repetitions."""
    return SourcesPath.from_numbers(sids)
