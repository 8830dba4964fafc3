"""Opens files and folders beneath a root folder without following symbolic links."""

import os
import stat
from collections.abc import Sequence

from timeloom.core.codes import CodedError
from timeloom.core.paths import PhysicalPath
from timeloom.core.paths.names import check_name

Root = int | str | os.PathLike[str]
"""A folder path, or an open descriptor of a folder."""

_ALLOWED_FLAGS = os.O_ACCMODE | os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_APPEND
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe without a writer must not hang. O_NOCTTY: a terminal must not become the controlling one.
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER_MODE = 0o755


class BeneathError(CodedError):
    """A path contains a symbolic link, or does not end at a regular file."""


def open_beneath(root: Root, path: PhysicalPath | Sequence[str], flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """Return a new descriptor of the regular file at that path or under these names beneath the root.

    Each folder is opened relative to its parent, so a link that is inserted at any moment is refused and never
    followed. Only the root itself may be a link. A file with a second hard link is refused, because the other name may
    lie outside of the root. The flags are an access mode with any of `O_CREAT` (which also creates missing folders),
    `O_EXCL`, `O_TRUNC` and `O_APPEND`. Other failures raise `OSError`, which names at most one component of the path.
    """
    if flags & ~_ALLOWED_FLAGS:
        raise ValueError("flags are an access mode with any of O_CREAT, O_EXCL, O_TRUNC and O_APPEND")
    *folders, name = path.names if isinstance(path, PhysicalPath) else path
    check_name(name)
    folder = open_folder_beneath(root, folders, make=bool(flags & os.O_CREAT))
    try:
        return _open_file(folder, name, flags, mode)
    finally:
        os.close(folder)


def open_folder_beneath(root: Root, names: Sequence[str], *, make: bool = False) -> int:
    """Return a new descriptor of the folder under these names beneath the root; without names, of the root.

    The guarantees of `open_beneath` apply. An unsafe name raises `PathError`.
    """
    for name in names:
        check_name(name)
    folder = _open_root(root)
    try:
        for name in names:
            inner = _open_folder(folder, name, make=make)
            os.close(folder)
            folder = inner
    except BaseException:
        os.close(folder)
        raise
    return folder


def _open_root(root: Root) -> int:
    if isinstance(root, int):
        return os.dup(root)
    try:
        return os.open(root, _FOLDER_FLAGS)
    except OSError as error:
        # The system's error names the host's folder, so it is replaced. The errno preserves the exception class.
        raise OSError(error.errno, "the root folder cannot be opened") from None


def _open_folder(parent: int, name: str, *, make: bool) -> int:
    if make:
        _make_folder(parent, name)
    try:
        return os.open(name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=parent)
    except OSError:
        # Systems report different errors for a link with O_NOFOLLOW, so the type is checked here.
        if stat.S_ISLNK(_mode_of(parent, name)):
            raise _link_error(name) from None
        raise


def _make_folder(parent: int, name: str) -> None:
    try:
        os.mkdir(name, _FOLDER_MODE, dir_fd=parent)
    except FileExistsError:
        return


def _open_file(parent: int, name: str, flags: int, mode: int) -> int:
    try:
        # The file is truncated only after its type has been checked.
        descriptor = os.open(name, flags & ~os.O_TRUNC | _FILE_FLAGS, mode, dir_fd=parent)
    except OSError:
        there = _mode_of(parent, name)
        if stat.S_ISLNK(there):
            raise _link_error(name) from None
        if there and not stat.S_ISREG(there):
            raise _kind_error(name) from None
        raise
    try:
        _check_plain(descriptor, name)
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_plain(descriptor: int, name: str) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise _kind_error(name)


def _mode_of(parent: int, name: str) -> int:
    """Return `st_mode` of the name in the parent folder, or 0 if `stat` fails; used only to choose an error."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except OSError:
        return 0


def _link_error(name: str) -> BeneathError:
    return BeneathError("path_symlink", f"{name!a} is a symbolic link; expected a file or folder itself")


def _kind_error(name: str) -> BeneathError:
    return BeneathError("path_not_regular", f"{name!a} is not a regular file with one name")
