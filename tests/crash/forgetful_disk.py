"""A simulated disk: records a store's file operations and derives states that a power cut could leave.

The model is stricter than real file systems. Each unsynced sector of a file may be written or not, independently. Each
name that was added, moved or removed may be changed or not, independently, unless its folder was synced.
"""

import random
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path

import apsw
from typing_extensions import override

from timeloom.stores.disk import Disk

SECTOR_BYTES = 512


@dataclass(eq=False)
class Inode:
    """A file, independent of its name."""


@dataclass(frozen=True)
class FileWrite:
    inode: Inode
    offset: int
    data: bytes


@dataclass(frozen=True)
class FileTruncate:
    inode: Inode
    size: int


@dataclass(frozen=True)
class FileSync:
    what: Inode


@dataclass(frozen=True)
class NameChange:
    """An atomic change of names: removed names and added names."""

    folder: Path
    gone: tuple[Path, ...] = ()
    put: tuple[tuple[Path, Inode], ...] = ()


@dataclass(frozen=True)
class FolderSync:
    what: Path


Operation = FileWrite | FileTruncate | FileSync | NameChange | FolderSync


@dataclass
class DiskRecorder:
    """All operations below one folder, in order."""

    root: Path
    operations: list[Operation] = field(default_factory=list[Operation])
    inodes: dict[Path, Inode] = field(default_factory=dict[Path, Inode])
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def now(self) -> int:
        """The number of operations so far."""
        return len(self.operations)

    def relative_path(self, path: Path | str) -> Path:
        return Path(path).relative_to(self.root)

    def record(self, operation: Operation) -> None:
        with self._lock:
            self.operations.append(operation)

    def record_create(self, path: Path) -> None:
        with self._lock:
            if path not in self.inodes:
                self.inodes[path] = Inode()
                self.record(NameChange(path.parent, put=((path, self.inodes[path]),)))

    def record_remove(self, path: Path) -> None:
        with self._lock:
            if self.inodes.pop(path, None):
                self.record(NameChange(path.parent, gone=(path,)))

    def record_rename(self, source: Path, target: Path) -> None:
        with self._lock:
            inode = self.inodes.pop(source)
            self.inodes[target] = inode
            self.record(NameChange(target.parent, (source,), ((target, inode),)))

    def after_power_cut(self, at: int, chance: random.Random, target: Path) -> None:
        """Create in `target` a state that a power cut after that many operations could have left."""
        state = _DiskAfterCut(self.operations[:at], chance)
        for path, inode in state.names.items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(state.contents[inode])


class _DiskAfterCut:
    """The disk after a power cut: everything synced, and a random part of the rest."""

    def __init__(self, done: list[Operation], chance: random.Random) -> None:
        self.names: dict[Path, Inode] = {}
        self.contents: defaultdict[Inode, bytearray] = defaultdict(bytearray)
        self._chance = chance
        self._survival_rate = chance.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        self._synced = {each.what: n for n, each in enumerate(done) if isinstance(each, FileSync | FolderSync)}
        for n, operation in enumerate(done):
            self._apply(n, operation)

    def _apply(self, n: int, operation: Operation) -> None:
        match operation:
            case NameChange(folder=folder) if self._survives(folder, n):
                for path in operation.gone:
                    self.names.pop(path, None)
                self.names.update(operation.put)
            case FileWrite(inode=inode):
                for offset, piece in split_sectors(operation):
                    if self._survives(inode, n):
                        overwrite_bytes(self.contents[inode], offset, piece)
            case FileTruncate(inode=inode, size=size) if self._survives(inode, n):
                del self.contents[inode][size:]
            case _:
                pass

    def _survives(self, what: Inode | Path, n: int) -> bool:
        return self._synced.get(what, -1) > n or self._chance.random() < self._survival_rate


def overwrite_bytes(content: bytearray, offset: int, piece: bytes) -> None:
    """Write into the content, with zeros before the piece if the content is shorter."""
    content.extend(bytes(max(0, offset + len(piece) - len(content))))
    content[offset : offset + len(piece)] = piece


def split_sectors(write: FileWrite) -> list[tuple[int, bytes]]:
    """Return the write as pieces that survive independently."""
    ends = range(write.offset - write.offset % SECTOR_BYTES, write.offset + len(write.data), SECTOR_BYTES)
    starts = [max(write.offset, end) for end in ends]
    return [
        (start, write.data[start - write.offset : (start // SECTOR_BYTES + 1) * SECTOR_BYTES - write.offset])
        for start in starts
    ]


class RecordingDisk(Disk):
    """A disk that records its operations; `forgets` names a sync that it omits."""

    def __init__(self, recorder: DiskRecorder, forgets: str = "") -> None:
        self._recorder = recorder
        self._omitted_sync = forgets

    def create(self, path: Path) -> None:
        super().create(path)
        self._recorder.record_create(self._recorder.relative_path(path))

    def write_new(self, folder: Path, data: bytes) -> Path:
        path = super().write_new(folder, data)
        place = self._recorder.relative_path(path)
        self._recorder.record_create(place)
        inode = self._recorder.inodes[place]
        self._recorder.record(FileWrite(inode, 0, data))
        if self._omitted_sync != "file":
            self._recorder.record(FileSync(inode))
        return path

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._recorder.record_rename(self._recorder.relative_path(source), self._recorder.relative_path(target))

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._recorder.record_remove(self._recorder.relative_path(path))

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        if path.is_relative_to(self._recorder.root) and self._omitted_sync != "folder":
            self._recorder.record(FolderSync(self._recorder.relative_path(path)))

    def sync(self, descriptor: int) -> None:
        """Do nothing, so that the real disk does not slow the test down."""


class _RecordingFile(apsw.VFSFile):
    def __init__(self, vfs: "RecordingVfs", name: str, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._recorder = vfs.recorder
        self._omitted_sync = vfs.omitted_sync
        self._path = vfs.recorder.relative_path(name)
        vfs.recorder.record_create(self._path)
        self._inode = vfs.recorder.inodes[self._path]

    @override
    def xWrite(self, data: bytes, offset: int) -> None:
        # Called by name, because the driver annotates `data` with a type of a newer Python.
        methodcaller("xWrite", data, offset)(super())
        self._recorder.record(FileWrite(self._inode, offset, bytes(data)))

    @override
    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._recorder.record(FileTruncate(self._inode, newsize))

    @override
    def xSync(self, flags: int) -> None:
        if self._omitted_sync != "database":
            self._recorder.record(FileSync(self._inode))
        if self._path.name != "journal.db":
            # SQLite syncs its log's folder together with the log, inside of this call.
            self._recorder.record(FolderSync(self._path.parent))


class RecordingVfs(apsw.VFS):
    """SQLite's default VFS with recording."""

    def __init__(self, name: str, recorder: DiskRecorder, forgets: str = "") -> None:
        super().__init__(name, "")
        self.name = name
        self.recorder = recorder
        self.omitted_sync = forgets

    @override
    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        assert path is not None, "the store makes no temporary databases"
        return _RecordingFile(self, path, flags)

    @override
    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.recorder.record_remove(self.recorder.relative_path(filename))
        if syncdir:
            self.recorder.record(FolderSync(self.recorder.relative_path(filename).parent))
