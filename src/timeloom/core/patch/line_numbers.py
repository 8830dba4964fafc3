"""Pasted line numbers: lines that carry the numbers under which a file was displayed.

Numbered data is legitimate content (`1. item`, `1<tab>Alice<tab>30`, `7: seven`), so a number before a separator is not
enough: the numbers must run on, on nearly every line, and the text must look displayed or be the file's own.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from timeloom.core.patch.types import BodyLine, PatchError, shown

_PREFIX = re.compile(r"([ ]{0,8})L?(\d{1,7}) ?([|│→:\t])(.*)", re.DOTALL)
_DISPLAY_ONLY = "│→"
_DATA_TOO = ":\t"
_NEARLY_ALL = 0.8
"""Share of the lines that must be numbered. Smaller meets tables with headers; larger lets one odd line hide all."""
_FEWEST = 3
"""Numbered lines in a new text. Fewer are as likely two entries of a list."""


class _Numbered(msgspec.Struct, frozen=True):
    pad: int
    digits: int
    number: int
    mark: str
    rest: str

    @property
    def text(self) -> str:
        """The line without its prefix, in which one space may follow the separator."""
        return self.rest.removeprefix(" ")


def has_prefix(line: str) -> bool:
    """Whether the line starts like a displayed one."""
    return _PREFIX.match(line) is not None


def refuse_numbered_text(before: str, text: str) -> None:
    """Refuse a new text whose lines carry the numbers of a display."""
    lines = _run(text.split("\n"), _FEWEST)
    if not lines or _run(before.split("\n"), 1):
        return
    if _looks_displayed(lines) or _mostly_known(lines, before):
        raise _refused(lines[0], "the new text")


def numbered_hunk(old: Iterable[BodyLine], name: str) -> PatchError | None:
    """The error for a hunk whose expected lines, which the file does not have, are numbered ones."""
    lines = _run([line.text for line in old], 1)
    return _refused(lines[0], name) if lines else None


def refuse_numbered_addition(
    added: Sequence[BodyLine], around: Sequence[str], places: tuple[int, int], name: str
) -> None:
    """Refuse added lines that carry the numbers of a display, unless the lines around them are numbered alike.

    `places` are the numbers of the first added line in the old and in the new file. One line that has its own number is
    enough with a separator that data seldom has; others need a second line.
    """
    lines = _run([line.text for line in added], 1)
    if not lines or any(found[3] == lines[0].mark for found in map(_PREFIX.match, around) if found):
        return
    in_place = lines[0].number in places and (len(lines) > 1 or lines[0].mark not in _DATA_TOO)
    if in_place or (len(lines) >= _FEWEST and _looks_displayed(lines)):
        raise _refused(lines[0], name)


def _run(texts: Sequence[str], fewest: int) -> list[_Numbered]:
    """The numbered lines, if nearly all lines are and the numbers run on; none otherwise."""
    written = [text.rstrip("\r") for text in texts if text.strip()]
    lines = [_numbered(found) for found in map(_PREFIX.match, written) if found]
    if len(lines) < max(fewest, _NEARLY_ALL * len(written)) or len({line.mark for line in lines}) != 1:
        return []
    steps = sum(1 for one, two in pairwise(lines) if two.number == one.number + 1)
    return lines if steps >= _NEARLY_ALL * (len(lines) - 1) else []


def _numbered(found: re.Match[str]) -> _Numbered:
    return _Numbered(len(found[1]), len(found[2]), int(found[2]), found[3], found[4])


def _looks_displayed(lines: Sequence[_Numbered]) -> bool:
    """Whether the prefixes are a display's: its own separators, a right-aligned column, or indented text behind."""
    mark = lines[0].mark
    if mark in _DISPLAY_ONLY:
        return True
    columns = {line.rest.count(mark) for line in lines}
    if len(columns) == 1 and columns != {0}:
        return False
    pads = {line.pad for line in lines}
    if len({line.pad + line.digits for line in lines}) == 1 and (len(pads) > 1 or (mark != ":" and pads != {0})):
        return True
    indented = sum(1 for line in lines if line.text.startswith(("  ", "\t")))
    return 0 < indented < len(lines)


def _mostly_known(lines: Sequence[_Numbered], before: str) -> bool:
    known = {line.rstrip("\r") for line in before.split("\n") if line.strip()}
    texts = [line for line in lines if line.rest.strip()]
    same = sum(1 for line in texts if line.text in known or line.rest in known)
    return bool(texts) and same * 2 >= len(texts)


def _refused(line: _Numbered, where: str) -> PatchError:
    prefix = f"{' ' * line.pad}{line.number}{line.mark}"
    return PatchError(
        "patch_line_numbers",
        f"{where} has line numbers such as {shown(prefix)} before its lines; they are display only, leave them out",
    )
