"""Removes folders that an untrusted program filled, at any depth, with any names and permissions."""

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
    """Remove the folder with all its content; a folder that is missing, or vanishes meanwhile, is no error.

    Links are not followed. Only this user may have write access to the folder itself; its content may belong to any
    user.
    """
    while folder.is_dir() and not folder.is_symlink():
        # If a part vanishes meanwhile, the loop removes the rest.
        with contextlib.suppress(FileNotFoundError):
            _remove_all(folder)
    folder.unlink(missing_ok=True)


def _remove_all(folder: Path) -> None:
    trash = folder / _TRASH
    trash.mkdir(mode=0o700, exist_ok=True)
    top = os.open(folder, _FOLDER)
    here = os.open(trash, _FOLDER)
    try:
        names = _unused_names(here)
        _empty_folder(top, here, names, keep=_TRASH)
        # Folders are moved to the top before they are emptied, so depth costs neither stack nor long paths.
        while inner := _list_names(here):
            for name in inner:
                _remove(here, name, names)
    finally:
        os.close(here)
        os.close(top)
    trash.rmdir()
    folder.rmdir()


def _unused_names(folder: int) -> Iterator[str]:
    """Yield names that are unused in the folder."""
    used = set(_list_names(folder))
    at = 0
    while True:
        if (name := f"{at:x}") not in used:
            yield name
        at += 1


def _list_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _remove(trash: int, name: str, names: Iterator[str]) -> None:
    inner = _open_folder(name, trash)
    if inner is None:
        os.unlink(name, dir_fd=trash)
        return
    try:
        _empty_folder(inner, trash, names)
    finally:
        os.close(inner)
    # A process that is being killed may have just added a file; the next pass removes it.
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=trash)


def _open_folder(name: str, trash: int) -> int | None:
    """Return a descriptor of the folder; None if something else has replaced it."""
    try:
        return os.open(name, _FOLDER, dir_fd=trash)
    except PermissionError:
        # Never reached by root, which must not chmod by name: a link in its place would lead elsewhere.
        os.chmod(name, _OURS, dir_fd=trash)
        return os.open(name, _FOLDER, dir_fd=trash)
    except NotADirectoryError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def _empty_folder(folder: int, trash: int, names: Iterator[str], keep: str = "") -> None:
    """Empty the folder: move subfolders to the trash, delete everything else."""
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
        # Moving a folder changes its `..`, so its owner needs write permission on it.
        os.chmod(name, _OURS, dir_fd=folder)
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=trash)
