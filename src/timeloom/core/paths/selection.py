"""Selections by number: of sources `so:sources_pool[1,3-5]`, of entries `ar:log[12-20]`, of turns `ar:turns[3]…`."""

import re
from collections.abc import Iterable
from typing import ClassVar, Self

import msgspec

from timeloom.core.paths.errors import PathError, shown

MAX_SID = 999_999
"""Largest source id in a selection. Smaller cuts off large pools; larger makes a full selection too long to parse."""

MAX_SELECTED = 500
"""Most numbers of one selection. Smaller refuses reads of a whole pool; larger lets a short text ask for much work."""

_ITEM = re.compile(r" *([0-9]+) *(?:- *([0-9]+) *)?")


class _Selection(msgspec.Struct, frozen=True, tag=True, tag_field="form"):
    """Inclusive ranges, ascending, with a gap between any two (`of` makes them so)."""

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
    def of(cls, numbers: Iterable[int]) -> Self:
        """The selection of these numbers, in any order and with repetitions."""
        return cls._merged([(number, number) for number in numbers])

    @classmethod
    def parsed(cls, text: str) -> Self:
        """The selection that stands between the brackets."""
        return cls._merged([cls._range_in(item) for item in text.split(",")])

    @property
    def numbers(self) -> tuple[int, ...]:
        """The selected numbers, ascending."""
        return tuple(number for first, last in self.ranges for number in range(first, last + 1))

    @classmethod
    def _merged(cls, ranges: list[tuple[int, int]]) -> Self:
        merged: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            # Checked before merging: a reversed range would vanish into its neighbour.
            cls._check_range(first, last)
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    @classmethod
    def _range_in(cls, item: str) -> tuple[int, int]:
        found = _ITEM.fullmatch(item)
        if not found:
            raise PathError("path_malformed", f"a selection is like 1,3-5, got the item {shown(item)}")
        first, last = found[1], found[2] or found[1]
        if max(len(first), len(last)) > len(str(cls.largest)):
            raise cls._too_large()
        return int(first), int(last)

    @classmethod
    def _check_range(cls, first: int, last: int) -> None:
        if max(first, last) > cls.largest:
            raise cls._too_large()
        if first < 1 or last < 1:
            raise PathError("path_malformed", f"a range of {cls.what}s starts at 1 or more")
        if first > last:
            raise PathError("path_malformed", f"a range of {cls.what}s ascends, got {first}-{last}")

    @classmethod
    def _too_large(cls) -> PathError:
        return PathError("range_too_large", f"a {cls.what} is at most {cls.largest}")


class SourcesPath(_Selection, frozen=True):
    """`so:sources_pool[1,3-5]`: rows of the sources pool."""

    what = "source id"
    largest = MAX_SID
    before = "so:sources_pool["

    @property
    def sids(self) -> tuple[int, ...]:
        """The selected ids, ascending."""
        return self.numbers


class EntriesPath(_Selection, frozen=True):
    """`ar:log[12,15-20]`: entries by their places in the conversation, whatever became of them in sight."""

    what = "place"
    largest = 999_999_999
    before = "ar:log["


class TurnIndexesPath(_Selection, frozen=True):
    """`ar:turns[3,5-7].react.turn.index`: the indexes of turns, the first turn being 1."""

    what = "turn"
    largest = 9_999_999
    before = "ar:turns["
    after = "].react.turn.index"


def select(sids: Iterable[int]) -> SourcesPath:
    """The selection of these source ids, in any order and with repetitions."""
    return SourcesPath.of(sids)
