"""Reads and writes the files of a conversation in OUT_DIR, which has one folder per turn.

`<turn>/files` and `<turn>/outputs` of the current turn are writable. Files of other turns and attachments are copied
here read-only. Symbolic links are never followed, and no message names a folder of the host.
"""

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from timeloom.core.codes import CodedError
from timeloom.core.paths import PathError, PhysicalPath
from timeloom.platform.open_beneath import BeneathError, open_beneath, open_folder_beneath

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
"""Largest file that is read or written. Smaller refuses datasets that people attach; larger fills memory, because a
file is held in memory while it is copied."""

MAX_LISTED_FILES: Final = 20_000
"""Most files that a listing visits. Fewer misses parts of large trees; more makes a search of a bad folder slow."""

MAX_LISTED_DEPTH: Final = 64
"""Deepest folder of a listing. Deeper ones are omitted: each level costs an open descriptor."""

RESERVED_PREFIX: Final = ".part-"
"""Name prefix of internal files: those being written, and undo records."""
_READ_ONLY: Final = 0o444
_EDITABLE: Final = 0o644
_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_O_TMPFILE: Final[int | None] = getattr(os, "O_TMPFILE", None)
_TMPFILE_UNSUPPORTED: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
_numbers = itertools.count()


class WorkspaceError(CodedError):
    """A file of the workspace that cannot be read or written."""


class WorkspaceListing(msgspec.Struct, frozen=True):
    """Files sorted by path; `complete` is false if some were omitted."""

    files: tuple[PhysicalPath, ...]
    complete: bool = True


class Workspace:
    """Reads and writes below one OUT_DIR. Calls block, so tools make them in a thread."""

    def __init__(self, out_dir: Path) -> None:
        self._out_dir = out_dir

    def size(self, path: PhysicalPath) -> int | None:
        """Return the size of the file in bytes; None if it does not exist."""
        try:
            descriptor = open_beneath(self._out_dir, path)
        except OSError as error:
            return _none_if_missing(error)
        try:
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def read(self, path: PhysicalPath) -> bytes | None:
        """Return the content of the file; None if it does not exist."""
        try:
            descriptor = open_beneath(self._out_dir, path)
        except OSError as error:
            return _none_if_missing(error)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        _check_size(len(data))
        return data

    def open(self, path: PhysicalPath) -> int | None:
        """Return a descriptor of the file for reading; None if it does not exist."""
        try:
            return open_beneath(self._out_dir, path)
        except OSError as error:
            return _none_if_missing(error)

    def write(self, path: PhysicalPath, data: bytes, *, read_only: bool = False) -> None:
        """Write the file atomically: concurrent readers see the old content or the new."""
        _check_size(len(data))
        *folders, name = path.names
        try:
            self._out_dir.mkdir(parents=True, exist_ok=True)
            folder = open_folder_beneath(self._out_dir, folders, make=True)
            try:
                _replace_file(folder, name, data, _READ_ONLY if read_only else _EDITABLE)
            finally:
                os.close(folder)
        except (IsADirectoryError, NotADirectoryError) as error:
            raise WorkspaceError(
                "path_not_regular", "a folder has the name of the file, or a file has the name of its folder"
            ) from error
        except OSError as error:
            raise _to_workspace_error(error) from None

    def ensure_content(self, path: PhysicalPath, data: bytes, *, read_only: bool) -> bool:
        """Write the file unless it already has this content; return whether it was written."""
        try:
            if self.read(path) == data:
                return False
        except (BeneathError, WorkspaceError):
            # Another kind of file is at this path, such as a link: writing replaces it.
            pass
        self.write(path, data, read_only=read_only)
        return True

    def remove(self, path: PhysicalPath) -> bool:
        """Delete the file; return whether it existed."""
        *folders, name = path.names
        try:
            folder = open_folder_beneath(self._out_dir, folders)
            try:
                os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError as error:
            _none_if_missing(error)
            return False
        return True

    def list_files(self, folder: Sequence[str]) -> WorkspaceListing:
        """Return the files in that folder and below, without links and names that no path can have."""
        found: list[PhysicalPath] = []
        for names in self._walk_names(folder):
            with contextlib.suppress(PathError):
                found.append(PhysicalPath("/".join(names)))
            if len(found) >= MAX_LISTED_FILES:
                return WorkspaceListing(tuple(found), complete=False)
        return WorkspaceListing(tuple(found))

    def _walk_names(self, folder: Sequence[str]) -> Iterator[tuple[str, ...]]:
        try:
            root = open_folder_beneath(self._out_dir, folder)
        except OSError as error:
            _none_if_missing(error)
            return
        try:
            for place, folders, names, here in os.fwalk(".", dir_fd=root):
                below = tuple(place.split("/")[1:])
                folders[:] = sorted(folders) if len(below) < MAX_LISTED_DEPTH else []
                yield from ((*folder, *below, name) for name in sorted(names) if _is_file(name, here))
        finally:
            os.close(root)


def _is_file(name: str, folder: int) -> bool:
    """Return whether it is a regular file and not an internal one."""
    if name.startswith(RESERVED_PREFIX):
        return False
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        # The file was deleted since the folder was listed.
        return False


def _replace_file(folder: int, name: str, data: bytes, mode: int) -> None:
    """Replace the file atomically by way of a temporary name in the same folder."""
    part = f"{RESERVED_PREFIX}{os.getpid()}-{next(_numbers)}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder)
    try:
        with os.fdopen(_open_part(folder, part), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            with contextlib.suppress(FileExistsError):
                # The file has no name until it is complete: a process killed while writing leaves nothing behind.
                os.link(f"/proc/self/fd/{file.fileno()}", part, dst_dir_fd=folder)
            # A rename replaces a link, never the target of the link.
            os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise


def _open_part(folder: int, part: str) -> int:
    """Open a new file in the folder, unnamed (O_TMPFILE) where the file system supports it."""
    if _O_TMPFILE is not None:
        try:
            return os.open(".", os.O_WRONLY | _O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=folder)
        except OSError as error:
            if error.errno not in _TMPFILE_UNSUPPORTED:
                raise
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)


def _check_size(size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise WorkspaceError("file_too_large", f"a file has at most {MAX_FILE_BYTES} bytes, got {size} or more")


def _none_if_missing(error: OSError) -> None:
    """Return None if the error says that the file does not exist; otherwise raise a `WorkspaceError`."""
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        raise _to_workspace_error(error) from None


def _to_workspace_error(error: OSError) -> WorkspaceError:
    # Only the symbolic name of the error: its text may name a folder of the host.
    name = errno.errorcode.get(error.errno or 0, "an unknown error")
    if error.errno in _DISK_FULL:
        text = f"the disk of the data folder, which holds the files of conversations, is full ({name}); "
        return WorkspaceError("workspace_failed", f"{text}free some space there and try again")
    return WorkspaceError("workspace_failed", f"the disk refused the access: {name}")
