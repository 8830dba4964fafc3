"""Growth: what a program has written into its folders, measured without trusting a name in them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_DEPTH: Final = 64
"""Deepest nesting of folders that is looked into. Less refuses source trees; more holds more descriptors at a time."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK_BYTES: Final = 512


@dataclass(slots=True)
class Growth:
    """What lies in some folders: how many files and folders, and the bytes they take on disk."""

    files: int = 0
    bytes: int = 0
    too_deep: bool = False
    closed: bool = False
    """Whether there is a folder that its owner has closed to those who count."""


def measure(folders: Sequence[Path], most_files: int) -> Growth:
    """What lies in them; counting stops beyond so many files, or at a folder that is nested too deep.

    A file with several names counts once for each. Links are counted and never followed.
    """
    found = Growth()
    for folder in folders:
        descriptor = _opened(folder, None, found)
        if descriptor is not None:
            _walk(descriptor, found, most_files)
    return found


def _walk(top: int, found: Growth, most_files: int) -> None:
    """Counts what is below, depth first; each folder is opened beneath the one before it."""
    opened = [top]
    waiting: list[list[str]] = [_counted(top, found)]
    try:
        while opened:
            if not waiting[-1] or found.files > most_files:
                os.close(opened.pop())
                waiting.pop()
                continue
            name = waiting[-1].pop()
            if len(opened) > MAX_DEPTH:
                found.too_deep = True
                continue
            inner = _opened(name, opened[-1], found)
            if inner is not None:
                opened.append(inner)
                waiting.append(_counted(inner, found))
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _counted(folder: int, found: Growth) -> list[str]:
    """Adds what lies in the folder; the folders in it."""
    inner: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                found.files += 1
                found.bytes += status.st_blocks * _BLOCK_BYTES
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.name)
    except PermissionError:
        # It can be listed, but what is in it cannot be looked at.
        found.closed = True
    except OSError:
        # It is being removed while it is looked at.
        pass
    return inner


def _opened(name: str | Path, folder: int | None, found: Growth) -> int | None:
    """A descriptor of the folder, if it is still one."""
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        found.closed = True
    except OSError:
        # It is gone, or something else has its name now.
        pass
    return None
