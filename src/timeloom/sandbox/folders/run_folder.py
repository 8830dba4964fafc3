"""Creates the folders of one execution and removes those of dead supervisors.

Each supervisor has one folder below the root, with a file that it keeps locked. The kernel releases the lock when the
process ends for any reason. Run folders lie in the supervisor's folder.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from timeloom.core.paths.names import check_relative
from timeloom.ports.ids import Ids
from timeloom.ports.sandbox import SandboxUnavailableError
from timeloom.sandbox.folders.remove_tree import remove_folder

_LOCK: Final = "lock"
_PRIVATE: Final = 0o700
_TRAVERSABLE: Final = 0o711
_CREATE: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """The host user and group that own the folders of a program; the ids inside a sandbox may differ."""

    uid: int
    gid: int

    @property
    def is_current_user(self) -> bool:
        """Whether this is the current user, so that no `chown` is needed."""
        return self.uid == os.geteuid()

    def take_ownership(self, place: Path | int) -> None:
        """Change the owner of the file or folder to this user."""
        if not self.is_current_user:
            os.chown(place, self.uid, self.gid)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folders of one execution; the program can write only to `work` and `out`."""

    path: Path

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def out(self) -> Path:
        return self.path / "out"

    @property
    def sock(self) -> Path:
        return self.path / "sock"

    def copy_inputs(self, inputs: Mapping[str, Path], owner: FolderOwner) -> None:
        """Copy the files into `out`; raise `PathError` for a path outside it, and `OSError` from the system."""
        for place, source in inputs.items():
            check_relative(place)
            target = self.out
            *folders, name = place.split("/")
            for folder in folders:
                target /= folder
                if not target.is_dir():
                    target.mkdir()
                    owner.take_ownership(target)
            _copy(source, target / name, owner)

    def remove(self) -> None:
        """Remove the folder with all its content."""
        remove_folder(self.path)


class RunFolders:
    """This supervisor's folder, in which it creates run folders."""

    def __init__(self, path: Path, lock: int, ids: Ids, swept: tuple[str, ...]) -> None:
        """Use `open`."""
        self.path = path
        self.removed = swept
        """Names of the removed folders of dead supervisors."""

        self._lock: int | None = lock
        self._ids = ids

    @classmethod
    def open(cls, root: Path, ids: Ids) -> "RunFolders":
        """Create a supervisor folder below the root and remove those of dead supervisors."""
        _make_private(root)
        swept = _remove_dead(root)
        while True:
            path = root / f"{ids.bits() % 16**16:016x}"
            path.mkdir(mode=_TRAVERSABLE)
            try:
                lock = _try_lock(path)
            except OSError:
                path.rmdir()
                raise
            if lock is not None:
                return cls(path, lock, ids, swept)

    def create(self, owner: FolderOwner) -> RunFolder:
        """Create the empty folders of one execution; `work` and `out` belong to the owner."""
        run = RunFolder(self.path / f"{self._ids.bits() % 16**16:016x}")
        try:
            run.path.mkdir()
            run.path.chmod(_TRAVERSABLE)
            for folder in (run.work, run.out):
                folder.mkdir(mode=_PRIVATE)
                owner.take_ownership(folder)
            run.sock.mkdir()
            run.sock.chmod(_TRAVERSABLE)
        except BaseException:
            run.remove()
            raise
        return run

    def close(self) -> None:
        """Remove this supervisor's folder."""
        if self._lock is not None:
            remove_folder(self.path)
            os.close(self._lock)
            self._lock = None


def _make_private(root: Path) -> None:
    """Create the root with access for this user only; another user may have created it first in a shared place."""
    root.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise SandboxUnavailableError("the folder for executions is not a folder that only this user can write to")
    root.chmod(_PRIVATE)


def _remove_dead(root: Path) -> tuple[str, ...]:
    swept: list[str] = []
    for path in list(root.iterdir()):
        lock = _try_lock(path) if path.is_dir() else None
        if lock is not None:
            remove_folder(path)
            os.close(lock)
            swept.append(path.name)
    return tuple(swept)


def _try_lock(path: Path) -> int | None:
    """Lock a supervisor's folder and return the descriptor; None if another process holds or removed it."""
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have removed the folder between open and lock.
        if (path / _LOCK).stat().st_ino == os.fstat(lock).st_ino:
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None


def _copy(source: Path, target: Path, owner: FolderOwner) -> None:
    reading = os.open(source, _READ)
    with os.fdopen(reading, "rb") as old:
        if not stat.S_ISREG(os.fstat(reading).st_mode):
            raise OSError("an input of a program is not a regular file")
        with os.fdopen(os.open(target, _CREATE, 0o644), "wb") as new:
            shutil.copyfileobj(old, new, 1024 * 1024)
            owner.take_ownership(new.fileno())
