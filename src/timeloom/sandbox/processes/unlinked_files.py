"""Finds deleted files that processes still hold and that no walk through folders finds.

A deleted file stays on disk while a process has it open, has it mapped or was started from it. A descriptor could also
be in transit through a socket, where it is invisible; the seccomp filter denies sending descriptors.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from timeloom.sandbox.processes.procfs import find_live_path, has_memory

MAPS_BYTES: Final = 16 * 1024 * 1024
"""Bytes of `/proc/PID/maps` that are read, over all processes. Honest programs with many processes exceed a smaller
limit; a larger one takes so long that a program can write unseen."""

_DELETED_SUFFIX: Final = b" (deleted)"
_BLOCK_BYTES: Final = 512


@dataclass(slots=True)
class UnlinkedFiles:
    """The deleted files that some processes hold on one device."""

    bytes: int = 0
    unknown_files: int = 0
    """Mapped files whose size the kernel reveals only to root."""

    is_unreadable: bool = False
    """Whether some process cannot be inspected."""

    has_too_many_mappings: bool = False
    """Whether there are more mappings than `MAPS_BYTES` covers."""

    _seen: set[int] = field(default_factory=set[int])

    def add_file(self, status: os.stat_result, device: int) -> None:
        """Count the file once, if it has no name and lies on the device."""
        if status.st_nlink == 0 and status.st_dev == device and status.st_ino not in self._seen:
            self._seen.add(status.st_ino)
            self.bytes += status.st_blocks * _BLOCK_BYTES

    def add_unknown_file(self, inode: int) -> None:
        """Count, once, a file of which only the inode number is known."""
        if inode not in self._seen:
            self._seen.add(inode)
            self.unknown_files += 1


def find_unlinked_files(pids: Sequence[int], device: int, folders: Sequence[str]) -> UnlinkedFiles:
    """Return the deleted files that the processes hold on that device.

    `folders` are their writable folders as they see them. Without folders, mapped files are not checked.
    """
    unlinked = UnlinkedFiles()
    paths = [path for pid in pids if (path := find_live_path(pid)) is not None]
    for path in paths:
        _add_open_files(path, device, unlinked)
    remaining = MAPS_BYTES
    for path in paths if folders else ():
        maps = _read_maps(path, remaining, unlinked)
        remaining -= len(maps)
        for addresses, inode in _deleted_mappings(maps, folders):
            _add_mapped_file(path, addresses, inode, device, unlinked)
    return unlinked


def _add_open_files(path: str, device: int, unlinked: UnlinkedFiles) -> None:
    try:
        names = os.listdir(f"{path}/fd")  # noqa: PTH208 - thousands of times a second
    except PermissionError:
        unlinked.is_unreadable |= has_memory(path)
        names = []
    except OSError:
        # It has ended.
        names = []
    for name in (*(f"fd/{each}" for each in names), "exe"):
        try:
            unlinked.add_file(os.stat(f"{path}/{name}"), device)  # noqa: PTH116 - as above
        except OSError:
            continue


def _read_maps(path: str, most: int, unlinked: UnlinkedFiles) -> bytes:
    try:
        with open(f"{path}/maps", "rb", buffering=0) as file:  # noqa: PTH123 - as above
            pieces: list[bytes] = []
            while most >= 0 and (piece := file.read(1024 * 1024)):
                pieces.append(piece)
                most -= len(piece)
    except PermissionError:
        unlinked.is_unreadable |= has_memory(path)
        return b""
    except OSError:
        return b""
    unlinked.has_too_many_mappings |= most < 0
    return b"".join(pieces)


def _deleted_mappings(maps: bytes, folders: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the address range and inode of mapped files that were deleted from those folders."""
    if _DELETED_SUFFIX not in maps:
        return
    prefixes = tuple(os.fsencode(folder) + b"/" for folder in folders)
    # Not `splitlines`: a file name may contain any line separator except this one.
    for line in maps.split(b"\n"):
        if line.endswith(_DELETED_SUFFIX):
            addresses, _, _, _, inode, name = line.split(maxsplit=5)
            if name.startswith(prefixes):
                yield addresses.decode(), int(inode)


def _add_mapped_file(path: str, addresses: str, inode: int, device: int, unlinked: UnlinkedFiles) -> None:
    first, _, last = addresses.partition("-")
    try:
        unlinked.add_file(os.stat(f"{path}/map_files/{int(first, 16):x}-{int(last, 16):x}"), device)  # noqa: PTH116 - as above
    except FileNotFoundError:
        # Only processes have `map_files`, not threads. For a process, the file is no longer mapped.
        if "/task/" in path:
            unlinked.add_unknown_file(inode)
    except OSError:
        unlinked.add_unknown_file(inode)
