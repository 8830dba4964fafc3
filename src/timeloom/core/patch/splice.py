"""Inserts located hunks into the file; lines outside the hunks keep their bytes."""

from collections.abc import Sequence

import msgspec

from timeloom.core.patch.types import BodyLine, Hunk, PlacedHunk


class LineEndings(msgspec.Struct, frozen=True):
    """Line endings of a patch compared with those of its file."""

    loose: bool
    """Whether lines are compared without carriage returns, because the patch uses only one kind of ending."""
    foreign: bool
    """Whether the patch's one kind of ending does not occur in the file."""
    usual: str
    """Ending for a line that has no neighbour in the file."""


def compare_endings(file: Sequence[str], hunks: Sequence[Hunk]) -> LineEndings:
    """Return how to interpret the patch's line endings."""
    kinds: set[str] = set()
    for line in (line for hunk in hunks for line in hunk.lines):
        if line.text.endswith("\r"):
            kinds.add("\r\n")
        elif line.newline:
            kinds.add("\n")
    own = {_line_ending(raw) for raw in file} - {""}
    loose = len(kinds) == 1
    usual = "\r\n" if kinds == {"\r\n"} else "\n"
    return LineEndings(loose=loose, foreign=loose and bool(own) and not kinds & own, usual=usual)


def splice(
    file: Sequence[str], hunks: Sequence[Hunk], places: Sequence[int], endings: LineEndings
) -> tuple[str, tuple[PlacedHunk, ...]]:
    """Return the new text and the position of each hunk in it."""
    pieces: list[str] = []
    placed: list[PlacedHunk] = []
    at = 0
    for hunk, place in zip(hunks, places, strict=True):
        pieces.extend(file[at:place])
        old_count, new_count = len(hunk.old), len(hunk.new)
        drift = 0 if hunk.old_start is None or not old_count else place + 1 - hunk.old_start
        placed.append(PlacedHunk(place + 1, old_count, len(pieces) + 1, new_count, drift))
        at = place + old_count
        _append_hunk(pieces, file, hunk, place, endings)
    pieces.extend(file[at:])
    return "".join(pieces), tuple(placed)


def _append_hunk(pieces: list[str], file: Sequence[str], hunk: Hunk, place: int, endings: LineEndings) -> None:
    verbatim = _is_verbatim(file, hunk, place, endings)
    at = place
    for line in hunk.lines:
        if line.tag == "+":
            own = _nearby_ending(file, at) or endings.usual
            if pieces and not _line_ending(pieces[-1]):
                pieces[-1] += own
            pieces.append(_format_added_line(line, None if verbatim else own))
            continue
        if line.tag == " ":
            pieces.append(file[at])
        at += 1
    if at == len(file) and _lacks_final_newline(file, hunk):
        pieces[-1] = pieces[-1].removesuffix("\n").removesuffix("\r")


def _is_verbatim(file: Sequence[str], hunk: Hunk, place: int, endings: LineEndings) -> bool:
    """Return whether added lines keep the patch's endings, because the file's lines have the same."""
    if not endings.loose:
        return True
    old = hunk.old
    found = [raw.removesuffix("\n") for raw in file[place : place + len(old)]]
    return not endings.foreign and [line.text for line in old] == found


def _lacks_final_newline(file: Sequence[str], hunk: Hunk) -> bool:
    """Return whether the last line, an added one, gets no newline: the file had none, and no mark contradicts."""
    if not file or _line_ending(file[-1]) or not all(line.newline for line in hunk.lines):
        return False
    return [line.tag for line in hunk.new[-1:]] == ["+"]


def _nearby_ending(file: Sequence[str], at: int) -> str:
    """Return the ending of the nearest line above that has one, or else of the first line; "" if neither has."""
    near = (_line_ending(raw) for raw in (*reversed(file[max(0, at - 2) : at]), *file[:1]))
    return next(filter(None, near), "")


def _format_added_line(line: BodyLine, ending: str | None) -> str:
    """Return the added line with the given ending, or as written."""
    text = line.text if ending is None else line.text.removesuffix("\r")
    return text + ((ending or "\n") if line.newline else "")


def _line_ending(raw: str) -> str:
    return "\r\n" if raw.endswith("\r\n") else raw[-1:] if raw.endswith("\n") else ""
