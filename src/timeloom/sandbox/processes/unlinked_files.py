"""Finds deleted files that processes still hold and that no walk through folders finds.

A deleted file stays on disk while a process has it open, has it mapped or was started from it. A descriptor could also
be in transit through a socket, where it is invisible; the seccomp filter denies sending descriptors.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from timeloom.sandbox.processes.procfs import has_memory, place_of

MAPS_BYTES: Final = 16 * 1024 * 1024
"""Bytes of `/proc/PID/maps` that are read, over all processes. Honest programs with many processes exceed a smaller
limit; a larger one takes so long that a program can write unseen."""

_REMOVED: Final = b" (deleted)"
_BLOCK_BYTES: Final = 512


@dataclass(slots=True)
class Held:
    """The deleted files that some processes hold on one device."""

    bytes: int = 0
    unknown: int = 0
    """Mapped files whose size the kernel reveals only to root."""

    closed: bool = False
    """Whether some process cannot be inspected."""

    too_many: bool = False
    """Whether there are more mappings than `MAPS_BYTES` covers."""

    _seen: set[int] = field(default_factory=set[int])

    def add(self, found: os.stat_result, device: int) -> None:
        """Count the file once, if it has no name and lies on the device."""
        if found.st_nlink == 0 and found.st_dev == device and found.st_ino not in self._seen:
            self._seen.add(found.st_ino)
            self.bytes += found.st_blocks * _BLOCK_BYTES

    def add_unknown(self, inode: int) -> None:
        """Count, once, a file of which only the inode number is known."""
        if inode not in self._seen:
            self._seen.add(inode)
            self.unknown += 1


def held_by(pids: Sequence[int], device: int, folders: Sequence[str]) -> Held:
    """Return the deleted files that the processes hold on that device.

    `folders` are their writable folders as they see them. Without folders, mapped files are not checked.
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
    """Yield the address range and inode of mapped files that were deleted from those folders."""
    if _REMOVED not in maps:
        return
    prefixes = tuple(os.fsencode(folder) + b"/" for folder in folders)
    # Not `splitlines`: a file name may contain any line separator except this one.
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
        # Only processes have `map_files`, not threads. For a process, the file is no longer mapped.
        if "/task/" in place:
            held.add_unknown(inode)
    except OSError:
        held.add_unknown(inode)
