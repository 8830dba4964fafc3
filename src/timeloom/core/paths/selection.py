"""Selections of source ids: `so:sources_pool[1,3-5]`."""

import re
from collections.abc import Iterable

import msgspec

from timeloom.core.paths.errors import PathError, shown

MAX_SID = 999_999
"""Largest source id in a selection. Smaller cuts off large pools; larger makes a full selection too long to parse."""

MAX_SELECTED_SIDS = 500
"""Most ids one selection names. Smaller refuses reads of a whole pool; larger lets a short text ask for much work."""

_ITEM = re.compile(r" *([0-9]+) *(?:- *([0-9]+) *)?")
_SID_DIGITS = len(str(MAX_SID))


class SourcesPath(msgspec.Struct, frozen=True, tag=True, tag_field="form"):
    """Rows of the sources pool: inclusive ranges, ascending, with a gap between any two (`select` makes them so)."""

    ranges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not self.ranges:
            raise PathError("path_malformed", "a selection names at least one source id")
        end = -1
        for first, last in self.ranges:
            _check_range(first, last)
            if first <= end + 1:
                raise PathError("path_malformed", "a selection's ranges ascend and do not touch each other")
            end = last
        if sum(last - first + 1 for first, last in self.ranges) > MAX_SELECTED_SIDS:
            raise PathError("range_too_large", f"a selection names at most {MAX_SELECTED_SIDS} source ids")

    def __str__(self) -> str:
        items = (f"{first:d}" if first == last else f"{first:d}-{last:d}" for first, last in self.ranges)
        return f"so:sources_pool[{','.join(items)}]"

    @property
    def sids(self) -> tuple[int, ...]:
        """The selected ids, ascending."""
        return tuple(sid for first, last in self.ranges for sid in range(first, last + 1))


def select(sids: Iterable[int]) -> SourcesPath:
    """The selection of these ids, in any order and with repetitions."""
    return _merged([(sid, sid) for sid in sids])


def parse_selection(text: str) -> SourcesPath:
    """The selection that stands between the brackets."""
    return _merged([_range_in(item) for item in text.split(",")])


def _merged(ranges: list[tuple[int, int]]) -> SourcesPath:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        # Checked before merging: a reversed range would vanish into its neighbour.
        _check_range(first, last)
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return SourcesPath(tuple(merged))


def _range_in(item: str) -> tuple[int, int]:
    found = _ITEM.fullmatch(item)
    if not found:
        raise PathError("path_malformed", f"a selection is like 1,3-5, got the item {shown(item)}")
    first, last = found[1], found[2] or found[1]
    if max(len(first), len(last)) > _SID_DIGITS:
        raise _too_large()
    return int(first), int(last)


def _check_range(first: int, last: int) -> None:
    if max(first, last) > MAX_SID:
        raise _too_large()
    if first < 1 or last < 1:
        raise PathError("path_malformed", "a range of source ids starts at 1 or more")
    if first > last:
        raise PathError("path_malformed", f"a range of source ids ascends, got {first}-{last}")


def _too_large() -> PathError:
    return PathError("range_too_large", f"a source id is at most {MAX_SID}")
