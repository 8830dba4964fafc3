"""A disk that can be set to be full, for the database and the payloads of a store in a folder."""

import errno
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from operator import methodcaller
from pathlib import Path

import apsw
from typing_extensions import override

from timeloom.stores.disk import Disk
from timeloom.stores.sqlite import SqliteStore


class FullDisk(Disk):
    """A disk that can be set to be full."""

    def __init__(self) -> None:
        self.is_full = False
        self.max_bytes: int | None = None
        """The largest payload that it takes."""

    @override
    def write_new(self, folder: Path, data: bytes) -> Path:
        if self.is_full or (self.max_bytes is not None and len(data) > self.max_bytes):
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))
        return super().write_new(folder, data)


class _FullFile(apsw.VFSFile):
    disk: FullDisk

    @override
    def xWrite(self, data: bytes, offset: int) -> None:
        if self.disk.is_full:
            raise apsw.FullError("database or disk is full")
        # Called by name, because the driver annotates `data` with a type of a newer Python.
        methodcaller("xWrite", data, offset)(super())


class _FullVfs(apsw.VFS):
    def __init__(self, name: str, disk: FullDisk) -> None:
        super().__init__(name, "")
        self._disk = disk

    @override
    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        assert name is not None
        file = _FullFile("", name, flags)
        file.disk = self._disk
        return file


@asynccontextmanager
async def store_on_full_disk(folder: Path) -> AsyncGenerator[tuple[SqliteStore, FullDisk]]:
    """Open a store in that folder, on a disk that has room until it is set to be full."""
    disk = FullDisk()
    name = f"full-{id(disk)}"
    vfs = _FullVfs(name, disk)
    try:
        async with await SqliteStore.open(folder, vfs=name, disk=disk) as store:
            yield store, disk
    finally:
        vfs.unregister()
