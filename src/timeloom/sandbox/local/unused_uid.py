"""Finds a user id without an account for programs, so that no account can inspect them."""

import grp
import pwd
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import SandboxUnavailableError

NUMBERS: Final = (range(1_900_001_001, 1_900_001_065), range(61_001, 61_184))
"""User ids that no system assigns: first above all container ranges, then, in case those are not mapped, below them."""

MAPS: Final = (Path("/proc/self/uid_map"), Path("/proc/self/gid_map"))


def nobodys_number(numbers: Iterable[Iterable[int]] = NUMBERS, maps: Sequence[Path] = MAPS) -> int:
    """Return the first id that no user and no group has; raise `SandboxUnavailableError` if none is free."""
    for number in chain.from_iterable(numbers):
        if all(_is_mapped(number, place) for place in maps) and not _is_taken(number):
            return number
    raise SandboxUnavailableError(
        "programs cannot be isolated: every number that they could have as a user belongs to an account here; run "
        "timeloom as another user than root"
    )


def _is_mapped(number: int, place: Path) -> bool:
    """Return whether this process's user namespace maps that id."""
    return any(first <= number < first + count for first, count in _ranges(place))


def _ranges(place: Path) -> Iterator[tuple[int, int]]:
    for line in place.read_text(encoding="ascii").splitlines():
        first, _, count = line.split()
        yield int(first), int(count)


def _is_taken(number: int) -> bool:
    for look in (pwd.getpwuid, grp.getgrgid):
        try:
            look(number)
        except KeyError:
            continue
        return True
    return False
