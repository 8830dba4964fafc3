"""Numbers of users that nobody has: who programs are on this machine, so that no account can look into them."""

import grp
import pwd
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from timeloom.ports.sandbox import SandboxUnavailableError

NUMBERS: Final = (range(1_900_001_001, 1_900_001_065), range(61_001, 61_184))
"""Numbers that systems give to nobody: beyond all ranges of containers, and, where those are not mapped, below them."""

MAPS: Final = (Path("/proc/self/uid_map"), Path("/proc/self/gid_map"))


def nobodys_number(numbers: Iterable[Iterable[int]] = NUMBERS, maps: Sequence[Path] = MAPS) -> int:
    """The first number that is neither a user's nor a group's here; raises `SandboxUnavailableError`."""
    for number in chain.from_iterable(numbers):
        if all(_is_mapped(number, place) for place in maps) and not _is_taken(number):
            return number
    raise SandboxUnavailableError(
        "programs cannot be isolated: every number that they could have as a user belongs to an account here; run "
        "timeloom as another user than root"
    )


def _is_mapped(number: int, place: Path) -> bool:
    """Whether this process can become that number at all."""
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
