"""Removal of folders that a program filled: however deep, however many names, whatever permissions it left."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TRASH: Final = ".going"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS: Final = stat.S_IRWXU


def remove_folder(folder: Path) -> None:
    """The folder is gone afterwards, with all that is in it; one that is not there, or that goes meanwhile, is gone.

    No link is followed. The folder itself must be one that only we can write to; what lies in it may be anybody's.
    """
    while folder.is_dir() and not folder.is_symlink():
        # Where a part of it goes meanwhile, the rest is still to be removed.
        with contextlib.suppress(FileNotFoundError):
            _remove_all(folder)
    folder.unlink(missing_ok=True)


def _remove_all(folder: Path) -> None:
    trash = folder / _TRASH
    trash.mkdir(mode=0o700, exist_ok=True)
    top = os.open(folder, _FOLDER)
    here = os.open(trash, _FOLDER)
    try:
        names = _fresh(here)
        _clear(top, here, names, keep=_TRASH)
        # Folders are moved to the top before they are emptied, so depth costs nothing: neither stack nor long paths.
        while inner := _names(here):
            for name in inner:
                _remove(here, name, names)
    finally:
        os.close(here)
        os.close(top)
    trash.rmdir()
    folder.rmdir()


def _fresh(folder: int) -> Iterator[str]:
    """Names that nothing in the folder has."""
    taken = set(_names(folder))
    at = 0
    while True:
        if (name := f"{at:x}") not in taken:
            yield name
        at += 1


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _remove(trash: int, name: str, names: Iterator[str]) -> None:
    inner = _opened(name, trash)
    if inner is None:
        os.unlink(name, dir_fd=trash)
        return
    try:
        _clear(inner, trash, names)
    finally:
        os.close(inner)
    # A process that is being killed may have put something there just now; it is met at the next look.
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=trash)


def _opened(name: str, trash: int) -> int | None:
    """A descriptor of the folder; None where it is none, but was put in the place of one."""
    try:
        return os.open(name, _FOLDER, dir_fd=trash)
    except PermissionError:
        # Never met by root, who must not change modes by name: a link in its place would lead elsewhere.
        os.chmod(name, _OURS, dir_fd=trash)
        return os.open(name, _FOLDER, dir_fd=trash)
    except NotADirectoryError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def _clear(folder: int, trash: int, names: Iterator[str], keep: str = "") -> None:
    """Empties the folder: what is a folder goes to the trash, all else goes for good."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        if name == keep:
            continue
        if is_folder:
            _move(name, next(names), folder, trash)
        else:
            os.unlink(name, dir_fd=folder)


def _move(name: str, new: str, folder: int, trash: int) -> None:
    try:
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=trash)
    except PermissionError:
        # A folder that its owner may not write to cannot be moved, because its `..` changes.
        os.chmod(name, _OURS, dir_fd=folder)
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=trash)
