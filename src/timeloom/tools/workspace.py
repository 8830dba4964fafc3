"""The workspace: the files of a conversation in OUT_DIR, a folder for each turn.

`<turn>/files` and `<turn>/outputs` of the current turn may be written; what other turns left, and what users sent, is
brought here read-only. Nothing is reached through a symbolic link, and no message names a folder of the host.
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
"""Largest file that is read or written. Smaller refuses datasets that people attach; larger fills memory, since a file
is held whole while it is brought here."""

MAX_WALKED_FILES: Final = 20_000
"""Most files that a walk visits. Fewer misses parts of large trees; more makes a search of a bad folder slow."""

MAX_WALKED_DEPTH: Final = 64
"""Deepest folder of a walk. Deeper ones are left out: each level costs an open descriptor."""

UNSEEN: Final = ".part-"
"""How the names begin of files that are no one's work: those being written, and what is kept of a change."""
_READ_ONLY: Final = 0o444
_EDITABLE: Final = 0o644
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_NAMELESS: Final[int | None] = getattr(os, "O_TMPFILE", None)
_NO_NAMELESS: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
_numbers = itertools.count()


class WorkspaceError(CodedError):
    """A file of the workspace that cannot be read or written."""


class Walk(msgspec.Struct, frozen=True):
    """The files that were found, in the order of their paths; `complete` is false where some were left out."""

    files: tuple[PhysicalPath, ...]
    complete: bool = True


class Workspace:
    """Reads and writes beneath one OUT_DIR; calls block, so a tool makes them in a thread."""

    def __init__(self, out_dir: Path) -> None:
        self._out_dir = out_dir

    def size(self, path: PhysicalPath) -> int | None:
        """The size of the file in bytes; nothing where there is none."""
        try:
            descriptor = open_beneath(self._out_dir, path)
        except OSError as error:
            return _absent(error)
        try:
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def read(self, path: PhysicalPath) -> bytes | None:
        """What the file holds; nothing where there is none."""
        try:
            descriptor = open_beneath(self._out_dir, path)
        except OSError as error:
            return _absent(error)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        _check_size(len(data))
        return data

    def open(self, path: PhysicalPath) -> int | None:
        """A descriptor of the file for reading; nothing where there is none."""
        try:
            return open_beneath(self._out_dir, path)
        except OSError as error:
            return _absent(error)

    def write(self, path: PhysicalPath, data: bytes, *, read_only: bool = False) -> None:
        """Puts the bytes there in one step: who reads meanwhile sees the old file or the new one."""
        _check_size(len(data))
        *folders, name = path.names
        try:
            self._out_dir.mkdir(parents=True, exist_ok=True)
            folder = open_folder_beneath(self._out_dir, folders, make=True)
            try:
                _replace(folder, name, data, _READ_ONLY if read_only else _EDITABLE)
            finally:
                os.close(folder)
        except (IsADirectoryError, NotADirectoryError) as error:
            raise WorkspaceError(
                "path_not_regular", "a folder stands where the file would be, or a file above"
            ) from error
        except OSError as error:
            raise _failed(error) from None

    def bring(self, path: PhysicalPath, data: bytes, *, read_only: bool) -> bool:
        """Makes the file hold these bytes; says whether it had to be written."""
        try:
            if self.read(path) == data:
                return False
        except (BeneathError, WorkspaceError):
            # Something else stands there, such as a link: writing puts the file in its place.
            pass
        self.write(path, data, read_only=read_only)
        return True

    def remove(self, path: PhysicalPath) -> bool:
        """Takes the file away; says whether there was one."""
        *folders, name = path.names
        try:
            folder = open_folder_beneath(self._out_dir, folders)
            try:
                os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError as error:
            _absent(error)
            return False
        return True

    def walk(self, folder: Sequence[str]) -> Walk:
        """The files in that folder and below; links, and names that no path can have, are passed over."""
        found: list[PhysicalPath] = []
        for names in self._names(folder):
            with contextlib.suppress(PathError):
                found.append(PhysicalPath("/".join(names)))
            if len(found) >= MAX_WALKED_FILES:
                return Walk(tuple(found), complete=False)
        return Walk(tuple(found))

    def _names(self, folder: Sequence[str]) -> Iterator[tuple[str, ...]]:
        try:
            root = open_folder_beneath(self._out_dir, folder)
        except OSError as error:
            _absent(error)
            return
        try:
            for place, folders, names, here in os.fwalk(".", dir_fd=root):
                below = tuple(place.split("/")[1:])
                folders[:] = sorted(folders) if len(below) < MAX_WALKED_DEPTH else []
                yield from ((*folder, *below, name) for name in sorted(names) if _is_file(name, here))
        finally:
            os.close(root)


def _is_file(name: str, folder: int) -> bool:
    """Whether it is a plain file, and somebody's work."""
    if name.startswith(UNSEEN):
        return False
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        # It was there a moment ago.
        return False


def _replace(folder: int, name: str, data: bytes, mode: int) -> None:
    """The file under its name, by way of another name in the same folder."""
    part = f"{UNSEEN}{os.getpid()}-{next(_numbers)}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder)
    try:
        with os.fdopen(_opened_part(folder, part), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            with contextlib.suppress(FileExistsError):
                # It has no name before it is whole: whoever is killed while they write leaves nothing.
                os.link(f"/proc/self/fd/{file.fileno()}", part, dst_dir_fd=folder)
            # A rename puts the file in the place of a link, never of what the link points to.
            os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise


def _opened_part(folder: int, part: str) -> int:
    """A new file in the folder, without a name where the system and its file system have such."""
    if _NAMELESS is not None:
        try:
            return os.open(".", os.O_WRONLY | _NAMELESS | os.O_CLOEXEC, 0o600, dir_fd=folder)
        except OSError as error:
            if error.errno not in _NO_NAMELESS:
                raise
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)


def _check_size(size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise WorkspaceError("file_too_large", f"a file has at most {MAX_FILE_BYTES} bytes, got {size} or more")


def _absent(error: OSError) -> None:
    """Nothing where the error says that nothing is there; any other error is one of the workspace."""
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        raise _failed(error) from None


def _failed(error: OSError) -> WorkspaceError:
    # Only the system's name of the error: its text may name a folder of the host.
    name = errno.errorcode.get(error.errno or 0, "an unknown error")
    if error.errno in _FULL:
        said = f"the disk is full that has the data folder, where the files of conversations lie ({name}); "
        return WorkspaceError("workspace_failed", f"{said}free some space there and try again")
    return WorkspaceError("workspace_failed", f"the disk refused: {name}")
