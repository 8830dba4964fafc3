"""Held files: what processes keep of files that have no name any more, and that no walk through folders finds.

A removed file stays on disk while a process has it open, has it mapped or was started from it. Descriptors can also be
on their way through a socket, where nobody sees them: sending them is refused by the filter of system calls.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from timeloom.sandbox.processes.procfs import has_memory, place_of

MAPS_BYTES: Final = 16 * 1024 * 1024
"""What is read of the lists of mappings, of all processes. Less is passed by honest programs with many processes; more
takes longer than a program may write unseen."""

_REMOVED: Final = b" (deleted)"
_BLOCK_BYTES: Final = 512


@dataclass(slots=True)
class Held:
    """What some processes hold on a device that has no name."""

    bytes: int = 0
    unknown: int = 0
    """Files that are mapped and whose size the kernel does not tell us; it tells root."""

    closed: bool = False
    """Whether there is a process that we may not look into."""

    too_many: bool = False
    """Whether there are more mappings than are looked at."""

    _seen: set[int] = field(default_factory=set[int])

    def add(self, found: os.stat_result, device: int) -> None:
        """Counts the file, once, if it has no name and lies there."""
        if found.st_nlink == 0 and found.st_dev == device and found.st_ino not in self._seen:
            self._seen.add(found.st_ino)
            self.bytes += found.st_blocks * _BLOCK_BYTES

    def add_unknown(self, inode: int) -> None:
        """Counts a file of which no more than this number is known, once."""
        if inode not in self._seen:
            self._seen.add(inode)
            self.unknown += 1


def held_by(pids: Sequence[int], device: int, folders: Sequence[str]) -> Held:
    """What they hold of that device; `folders` are those that they can write to, by the names that they know.

    Without folders it is not asked what is mapped.
    """
    held = Held()
    places = [place for pid in pids if (place := place_of(pid)) is not None]
    for place in places:
        _add_opened(place, device, held)
    left = MAPS_BYTES
    for place in places if folders else ():
        maps = _maps(place, left, held)
        left -= len(maps)
        for addresses, inode in _removed(maps, folders):
            _add_mapped(place, addresses, inode, device, held)
    return held


def _add_opened(place: str, device: int, held: Held) -> None:
    try:
        names = os.listdir(f"{place}/fd")  # noqa: PTH208 - thousands of times a second
    except PermissionError:
        held.closed |= has_memory(place)
        names = []
    except OSError:
        # It has ended.
        names = []
    for name in (*(f"fd/{each}" for each in names), "exe"):
        try:
            held.add(os.stat(f"{place}/{name}"), device)  # noqa: PTH116 - as above
        except OSError:
            continue


def _maps(place: str, most: int, held: Held) -> bytes:
    try:
        with open(f"{place}/maps", "rb", buffering=0) as file:  # noqa: PTH123 - as above
            pieces: list[bytes] = []
            while most >= 0 and (piece := file.read(1024 * 1024)):
                pieces.append(piece)
                most -= len(piece)
    except PermissionError:
        held.closed |= has_memory(place)
        return b""
    except OSError:
        return b""
    held.too_many |= most < 0
    return b"".join(pieces)


def _removed(maps: bytes, folders: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Addresses and inode of the mappings of files in those folders that have lost their name."""
    if _REMOVED not in maps:
        return
    prefixes = tuple(os.fsencode(folder) + b"/" for folder in folders)
    # Not by lines of any kind: names may hold all ends of lines but this one.
    for line in maps.split(b"\n"):
        if line.endswith(_REMOVED):
            addresses, _, _, _, inode, name = line.split(maxsplit=5)
            if name.startswith(prefixes):
                yield addresses.decode(), int(inode)


def _add_mapped(place: str, addresses: str, inode: int, device: int, held: Held) -> None:
    first, _, last = addresses.partition("-")
    try:
        held.add(os.stat(f"{place}/map_files/{int(first, 16):x}-{int(last, 16):x}"), device)  # noqa: PTH116 - as above
    except FileNotFoundError:
        # Only processes have such a folder, not their threads; there it is not mapped any more.
        if "/task/" in place:
            held.add_unknown(inode)
    except OSError:
        held.add_unknown(inode)
