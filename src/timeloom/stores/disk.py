"""File operations whose order and syncing make a store durable."""

import contextlib
import fcntl
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None) if sys.platform == "darwin" else None


class Disk:
    """The disk of this machine. Tests replace it with one that loses unsynced data."""

    def create(self, path: Path) -> None:
        """Create an empty file that only its owner can read, unless the file exists."""
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))

    def write_new(self, folder: Path, data: bytes) -> Path:
        """Write a new file in that folder. Its content is durable; its name is not until `sync_folder`."""
        descriptor, name = tempfile.mkstemp(dir=folder)
        path = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                self.sync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path

    def preallocate(self, path: Path, size_bytes: int) -> None:
        """Extend the file with zeros to at least that size, so that later writes change no metadata."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if size < size_bytes:
                os.pwrite(descriptor, bytes(size_bytes - size), size)
                self.sync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Move a file and replace the target if it exists. Durable after `sync_folder` of the target's folder."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        """Create the folder and its missing parents durably."""
        missing: list[Path] = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for folder in reversed(missing):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
            self.sync_folder(folder.parent)

    def sync_folder(self, path: Path) -> None:
        """Make the file names in the folder durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def sync(self, descriptor: int) -> None:
        """Make the content of the open file durable."""
        if _FULL_SYNC is None:
            os.fsync(descriptor)
        else:
            # On macOS fsync does not flush the drive's own cache.
            fcntl.fcntl(descriptor, _FULL_SYNC)
