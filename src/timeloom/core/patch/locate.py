"""Finds the position of each hunk: its lines must match the file exactly at one place only.

The search encodes each line of the file as one character. It then uses the interpreter's substring search, which stays
linear even if all lines are equal.
"""

from collections.abc import Iterable, Sequence

import msgspec

from timeloom.core.patch.line_numbers import numbered_hunk_error
from timeloom.core.patch.types import DRIFT_LINES, MAX_SEARCHED_LINES, Hunk, PatchError, quote_text


class _HunkMatches(msgspec.Struct, frozen=True):
    pattern: str
    spots: tuple[int, ...]
    """First position where the hunk fits, and the second if there is one; counted from 0."""

    def drift(self, hunk: Hunk) -> int | None:
        """Return how far the hunk moved; None if its position is ambiguous or it states none."""
        return self.spots[0] + 1 - hunk.old_start if len(self.spots) == 1 and hunk.old_start is not None else None


class _LineSearch:
    """Lines of the file, each encoded as one character."""

    def __init__(self, keys: Sequence[str], *, ended: bool, loose: bool) -> None:
        self.keys = keys
        self.ended = ended
        self._loose = loose
        self._codes: dict[str, str] = {}
        for key in keys:
            self._codes.setdefault(key, chr(len(self._codes)))
        self.text = "".join([self._codes[key] for key in keys])

    def find_hunk(self, hunk: Hunk) -> _HunkMatches:
        """Return the positions in the hunk's window where it fits; raise if there is none."""
        old = hunk.old
        wanted = [line_key(line.text, loose=self._loose) for line in old]
        codes = [self._codes.get(key) for key in wanted]
        if None in codes:
            raise _absent_line_error(hunk, wanted[codes.index(None)], self.keys)
        pattern = "".join(filter(None, codes))
        last = len(self.keys) - len(pattern)
        low, high = _window(hunk, last)
        if not old[-1].newline and self.ended:
            raise PatchError(
                "patch_no_match", f"{_describe_hunk(hunk)} expects no newline at the end of the file, which has one"
            )
        if any(not line.newline for line in hunk.lines):
            low = max(low, last)
        first = self.text.find(pattern, low, max(low, high + len(pattern)))
        if first < 0:
            raise _misplaced_error(hunk, self.text.find(pattern))
        second = self.text.find(pattern, first + 1, high + len(pattern))
        return _HunkMatches(pattern, (first,) if second < 0 else (first, second))

    def is_applied(self, hunk: Hunk, place: int) -> bool:
        """Return whether a hunk without context at an edge was applied before, so that this place repeats it.

        Such a hunk may stand where a file begins or ends, and nothing else confirms its place. If it fits elsewhere, it
        has moved, or it was applied already. The latter is assumed if its new lines stand at that edge or around the
        place.
        """
        length, old, new = len(self.keys), len(hunk.old), len(hunk.new)
        moved_up, moved_down = place > 0, place + old < length
        before, after = hunk.count_edge(" "), hunk.count_edge(" ", last=True)
        spots: set[int] = set()
        if moved_up and (hunk.old_start <= 1 if hunk.old_start is not None else before < after):
            spots.add(0)
        if moved_down and after < before:
            spots.add(length - new)
        added_above = hunk.count_edge("+")
        if (moved_up and added_above) or (moved_down and hunk.count_edge("+", last=True)):
            spots.add(place - added_above)
        if not spots:
            return False
        codes = [self._codes.get(line_key(line.text, loose=self._loose)) for line in hunk.new]
        if not codes or None in codes:
            return False
        text = "".join(filter(None, codes))
        return any(spot >= 0 and self.text.startswith(text, spot) for spot in spots)


def place_hunks(keys: Sequence[str], hunks: Sequence[Hunk], *, ended: bool, loose: bool) -> list[int]:
    """Return the line, counted from 0, at which each hunk starts; `ended` is whether the file ends with a newline."""
    for hunk in hunks:
        if not hunk.old:
            raise PatchError(
                "patch_ambiguous",
                f"{_describe_hunk(hunk)} adds lines without any line around them; give the lines above and below",
            )
    unnumbered = sum(1 for hunk in hunks if hunk.old_start is None)
    if unnumbered * len(keys) > MAX_SEARCHED_LINES:
        message = f"{unnumbered} hunks without line numbers are too many for a file of {len(keys)} lines; number them"
        raise PatchError("patch_too_large", message)
    search = _LineSearch(keys, ended=ended, loose=loose)
    found = [search.find_hunk(hunk) for hunk in hunks]
    places = _choose_places(search.text, hunks, found)
    _check_order(hunks, found, places)
    for hunk, place in zip(hunks, places, strict=True):
        if search.is_applied(hunk, place):
            raise _applied_error(hunk)
    return places


def line_key(text: str, *, loose: bool) -> str:
    """Return the key by which lines are compared."""
    return text.removesuffix("\r") if loose else text


def _window(hunk: Hunk, last: int) -> tuple[int, int]:
    if hunk.old_start is None:
        return 0, last
    return max(0, hunk.old_start - 1 - DRIFT_LINES), min(last, hunk.old_start - 1 + DRIFT_LINES)


def _choose_places(text: str, hunks: Sequence[Hunk], found: Sequence[_HunkMatches]) -> list[int]:
    """Return one position per hunk; an ambiguous hunk needs consistent numbers and neighbours that agree."""
    drifts = [each.drift(hunk) for hunk, each in zip(hunks, found, strict=True)]
    above, below = _nearest_earlier_drifts(drifts), _nearest_earlier_drifts(reversed(drifts))[::-1]
    places: list[int] = []
    grown = 0
    for index, (hunk, each) in enumerate(zip(hunks, found, strict=True)):
        if len(each.spots) == 1:
            places.append(each.spots[0])
        else:
            place = _stated_place(hunk, grown, {above[index], below[index]} - {None})
            if place is None or place < 0 or not text.startswith(each.pattern, place):
                raise _ambiguous_error(hunk, each.spots)
            places.append(place)
        grown += len(hunk.new) - len(hunk.old)
    return places


def _nearest_earlier_drifts(drifts: Iterable[int | None]) -> list[int | None]:
    """Return for each hunk the drift of the nearest earlier hunk whose position is certain."""
    known: int | None = None
    result: list[int | None] = []
    for drift in drifts:
        result.append(known)
        known = known if drift is None else drift
    return result


def _stated_place(hunk: Hunk, grown: int, drifts: set[int | None]) -> int | None:
    """Return the header's position plus the drift of neighbouring hunks; None if the numbers are inconsistent."""
    if hunk.old_start is None or hunk.new_start is None or not hunk.counted or len(drifts) > 1:
        return None
    new_start = hunk.new_start if hunk.new else hunk.new_start + 1
    if new_start - hunk.old_start != grown:
        return None
    return hunk.old_start - 1 + (drifts.pop() or 0 if drifts else 0)


def _check_order(hunks: Sequence[Hunk], found: Sequence[_HunkMatches], places: Sequence[int]) -> None:
    end = 0
    for hunk, each, place in zip(hunks, found, places, strict=True):
        if place < end:
            raise PatchError(
                "patch_overlap",
                f"{_describe_hunk(hunk)} fits at line {place + 1}, but the hunk before it ends at line {end}; "
                "order the hunks as the file and join those that share lines",
            )
        end = place + len(each.pattern)


def _absent_line_error(hunk: Hunk, line: str, keys: Sequence[str]) -> PatchError:
    numbered = numbered_hunk_error(hunk.old, _describe_hunk(hunk))
    if numbered:
        return numbered
    words = line.split()
    near = next((at for at, key in enumerate(keys) if words and words[0] in key and key.split() == words), None)
    hint = "" if near is None else f"; line {near + 1} differs from it only in white space"
    return PatchError(
        "patch_no_match",
        f"{_describe_hunk(hunk)} expects the line {quote_text(line)}, which the file does not have{hint}",
    )


def _misplaced_error(hunk: Hunk, place: int) -> PatchError:
    stated = "" if hunk.old_start is None else f" near line {hunk.old_start}"
    if place < 0:
        message = f"the file has the lines that {_describe_hunk(hunk)} expects, but not together{stated}"
    elif any(not line.newline for line in hunk.lines):
        message = f"{_describe_hunk(hunk)} says that the file ends with it, but its lines are at line {place + 1}"
    else:
        message = (
            f"{_describe_hunk(hunk)} fits at line {place + 1}, which is more than {DRIFT_LINES} lines away{stated}"
        )
    return PatchError("patch_no_match", message)


def _applied_error(hunk: Hunk) -> PatchError:
    return PatchError(
        "patch_applied",
        f"the lines that {_describe_hunk(hunk)} makes stand in the file already; "
        "to add them again, give the lines above and below",
    )


def _ambiguous_error(hunk: Hunk, spots: tuple[int, ...]) -> PatchError:
    lines = " and ".join(str(spot + 1) for spot in spots)
    reason = "has no line numbers" if hunk.old_start is None else f"line {hunk.old_start} is not certainly meant"
    return PatchError(
        "patch_ambiguous", f"{_describe_hunk(hunk)} fits at lines {lines} and {reason}; give more context lines"
    )


def _describe_hunk(hunk: Hunk) -> str:
    return f"hunk {hunk.number} (line {hunk.patch_line} of the patch)"
