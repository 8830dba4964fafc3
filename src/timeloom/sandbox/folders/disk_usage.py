"""Measures the files and disk space below untrusted folders without following links."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_DEPTH: Final = 64
"""Deepest folder nesting that is measured. A lower limit refuses source trees; a higher one keeps more descriptors open
at a time."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK_BYTES: Final = 512


@dataclass(slots=True)
class DiskUsage:
    """Number of files and folders below some folders, and the bytes they use on disk."""

    files: int = 0
    bytes: int = 0
    is_too_deep: bool = False
    is_unreadable: bool = False
    """Whether some folder is unreadable because its owner changed the permissions."""


def measure_folders(folders: Sequence[Path], most_files: int) -> DiskUsage:
    """Measure the folders; stop after `most_files` files, or below a folder that is nested too deep.

    A file with several hard links counts once per link. Symbolic links count but are never followed.
    """
    usage = DiskUsage()
    for folder in folders:
        descriptor = _open_folder(folder, None, usage)
        if descriptor is not None:
            _walk(descriptor, usage, most_files)
    return usage


def _walk(top: int, usage: DiskUsage, most_files: int) -> None:
    """Count everything below, depth first; open each folder relative to its parent."""
    opened = [top]
    waiting: list[list[str]] = [_count_entries(top, usage)]
    try:
        while opened:
            if not waiting[-1] or usage.files > most_files:
                os.close(opened.pop())
                waiting.pop()
                continue
            name = waiting[-1].pop()
            if len(opened) > MAX_DEPTH:
                usage.is_too_deep = True
                continue
            inner = _open_folder(name, opened[-1], usage)
            if inner is not None:
                opened.append(inner)
                waiting.append(_count_entries(inner, usage))
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _count_entries(folder: int, usage: DiskUsage) -> list[str]:
    """Add the entries of the folder and return the names of its subfolders."""
    inner: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                usage.files += 1
                usage.bytes += status.st_blocks * _BLOCK_BYTES
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.name)
    except PermissionError:
        # The folder can be listed, but its entries cannot be read.
        usage.is_unreadable = True
    except OSError:
        # The folder is being removed at the same time.
        pass
    return inner


def _open_folder(name: str | Path, folder: int | None, usage: DiskUsage) -> int | None:
    """Return a descriptor of the folder, or None if it is no folder any more."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        usage.is_unreadable = True
    except OSError:
        # The folder is gone, or its name now belongs to something else.
        pass
    return None
