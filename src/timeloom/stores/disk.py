"""The disk: the few operations on files and folders whose order and syncing a store's durability rests on."""

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
    """The machine's disk; tests put one in its place that forgets what was not synced."""

    def create(self, path: Path) -> None:
        """An empty file, readable by its owner alone, unless there is one already."""
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))

    def write_new(self, folder: Path, data: bytes) -> Path:
        """A new file of that folder, whose content is durable and whose name is not yet."""
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

    def reserve(self, path: Path, size_bytes: int) -> None:
        """Makes the file at least so long, with zeros, so that writing there later changes nothing but content."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            if size < size_bytes:
                os.pwrite(descriptor, bytes(size_bytes - size), size)
                self.sync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Puts a file in the place of another, or of nothing; durable when the target's folder was synced."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Removes a file, if it is there."""
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        """The folder is there and durable, and so are those above it that were missing."""
        missing: list[Path] = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for folder in reversed(missing):
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
            self.sync_folder(folder.parent)

    def sync_folder(self, path: Path) -> None:
        """Makes the names in the folder durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def sync(self, descriptor: int) -> None:
        """Makes what was written durable."""
        if _FULL_SYNC is None:
            os.fsync(descriptor)
        else:
            # There fsync stops at the drive's own cache.
            fcntl.fcntl(descriptor, _FULL_SYNC)
