"""Refuses pasted line numbers: lines that start with the numbers under which a file was displayed.

Numbered data is legitimate content (`1. item`, `1<tab>Alice<tab>30`, `7: seven`), so a number before a separator is not
enough. The numbers must be consecutive on nearly every line, and the text must look displayed or match the file.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from timeloom.core.patch.types import BodyLine, PatchError, quote_text

_PREFIX = re.compile(r"([ ]{0,8})L?(\d{1,7}) ?([|│→:\t])(.*)", re.DOTALL)
_DISPLAY_ONLY = "│→"
_DATA_TOO = ":\t"
_NEARLY_ALL = 0.8
"""Share of lines that must be numbered. A smaller share includes tables with headers; a larger one misses numbering
with one odd line."""
_FEWEST = 3
"""Fewest numbered lines in a new text. Two lines are as likely entries of a list."""


class _NumberedLine(msgspec.Struct, frozen=True):
    pad: int
    digits: int
    number: int
    mark: str
    rest: str

    @property
    def text(self) -> str:
        """Line without its prefix; one space may follow the separator."""
        return self.rest.removeprefix(" ")


def has_prefix(line: str) -> bool:
    """Return whether the line starts with a displayed line number."""
    return _PREFIX.match(line) is not None


def refuse_numbered_text(before: str, text: str) -> None:
    """Raise if the lines of a new text carry displayed line numbers."""
    lines = _find_numbered_run(text.split("\n"), _FEWEST)
    if not lines or _find_numbered_run(before.split("\n"), 1):
        return
    if _looks_displayed(lines) or _is_mostly_known(lines, before):
        raise _line_numbers_error(lines[0], "the new text")


def numbered_hunk_error(old: Iterable[BodyLine], name: str) -> PatchError | None:
    """Return the error for a hunk whose expected lines are missing in the file because they are numbered; else None."""
    lines = _find_numbered_run([line.text for line in old], 1)
    return _line_numbers_error(lines[0], name) if lines else None


def refuse_numbered_addition(
    added: Sequence[BodyLine], around: Sequence[str], places: tuple[int, int], name: str
) -> None:
    """Raise if added lines carry displayed line numbers, unless lines around them are numbered alike.

    `places` are the line numbers of the first added line in the old and in the new file. With a separator that is rare
    in data, one line with its correct number is enough; other separators need two lines.
    """
    lines = _find_numbered_run([line.text for line in added], 1)
    if not lines or any(found[3] == lines[0].mark for found in map(_PREFIX.match, around) if found):
        return
    in_place = lines[0].number in places and (len(lines) > 1 or lines[0].mark not in _DATA_TOO)
    if in_place or (len(lines) >= _FEWEST and _looks_displayed(lines)):
        raise _line_numbers_error(lines[0], name)


def _find_numbered_run(texts: Sequence[str], fewest: int) -> list[_NumberedLine]:
    """Return the numbered lines if nearly all lines are numbered consecutively; else an empty list."""
    written = [text.rstrip("\r") for text in texts if text.strip()]
    lines = [_parse_prefix(found) for found in map(_PREFIX.match, written) if found]
    if len(lines) < max(fewest, _NEARLY_ALL * len(written)) or len({line.mark for line in lines}) != 1:
        return []
    steps = sum(1 for one, two in pairwise(lines) if two.number == one.number + 1)
    return lines if steps >= _NEARLY_ALL * (len(lines) - 1) else []


def _parse_prefix(found: re.Match[str]) -> _NumberedLine:
    return _NumberedLine(len(found[1]), len(found[2]), int(found[2]), found[3], found[4])


def _looks_displayed(lines: Sequence[_NumberedLine]) -> bool:
    """Return whether the prefixes come from a display: its separators, a right-aligned column or indented text."""
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


def _is_mostly_known(lines: Sequence[_NumberedLine], before: str) -> bool:
    known = {line.rstrip("\r") for line in before.split("\n") if line.strip()}
    texts = [line for line in lines if line.rest.strip()]
    same = sum(1 for line in texts if line.text in known or line.rest in known)
    return bool(texts) and same * 2 >= len(texts)


def _line_numbers_error(line: _NumberedLine, where: str) -> PatchError:
    prefix = f"{' ' * line.pad}{line.number}{line.mark}"
    return PatchError(
        "patch_line_numbers",
        f"{where} has line numbers such as {quote_text(prefix)} before its lines; "
        "they are display only, leave them out",
    )
