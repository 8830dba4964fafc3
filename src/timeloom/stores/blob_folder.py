"""Stores payloads as files named by their SHA-256, in one folder per tenant."""

import contextlib
import hashlib
import os
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from timeloom.core.payload import BlobRef
from timeloom.ports.blobs import BlobError
from timeloom.stores.disk import Disk

INCOMING: Final = "incoming"
"""Folder for staged payloads whose append is not committed yet. After a crash its files are garbage."""

_SAFE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_CHUNK_BYTES: Final = 1 << 20


def tenant_folder(tenant: str) -> str:
    """Return the folder name of a tenant: its name if that is safe on every file system, otherwise its hash."""
    if _SAFE_NAME.fullmatch(tenant):
        return f"t_{tenant}"
    return f"x_{hashlib.sha256(tenant.encode('utf-8', 'surrogatepass')).hexdigest()}"


class BlobFolder:
    """Writes payloads in two steps: `stage` needs no lock; `publish` runs inside the transaction of the append."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self._root = root
        self._disk = disk

    def create_folders(self) -> None:
        """Create the folders that every store has."""
        self._disk.make_folder(self._root / INCOMING)

    def read(self, tenant: str, ref: BlobRef) -> bytes:
        """Return the bytes of the payload; raises `BlobError` if it is missing, or if size or hash do not match."""
        try:
            descriptor = os.open(self._path(tenant, ref.sha256), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                data = file.read()
        except OSError as error:
            raise _unreadable_error(ref, error) from None
        if len(data) != ref.size_bytes or hashlib.sha256(data).hexdigest() != ref.sha256:
            raise _damaged_error(ref, len(data))
        return data

    def read_part(self, tenant: str, ref: BlobRef, start: int, most_bytes: int) -> bytes:
        """Return at most `most_bytes` bytes from offset `start`. Only the size of the whole file is checked."""
        try:
            descriptor = os.open(self._path(tenant, ref.sha256), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                size_bytes = os.fstat(descriptor).st_size
                data = os.pread(descriptor, most_bytes, start)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _unreadable_error(ref, error) from None
        if size_bytes != ref.size_bytes or len(data) < min(most_bytes, size_bytes - start):
            raise _damaged_error(ref, size_bytes)
        return data

    def find_damage(self, tenant: str, ref: BlobRef) -> BlobError | None:
        """Return the error that reading the payload would raise, or None. Reads in chunks of 1 MiB."""
        digest, size_bytes = hashlib.sha256(), 0
        try:
            descriptor = os.open(self._path(tenant, ref.sha256), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    size_bytes += len(chunk)
        except (OSError, BlobError) as error:
            return error if isinstance(error, BlobError) else _unreadable_error(ref, error)
        if size_bytes != ref.size_bytes or digest.hexdigest() != ref.sha256:
            return _damaged_error(ref, size_bytes)
        return None

    def has(self, tenant: str, ref: BlobRef) -> bool:
        """Whether a file with the name and size of the payload exists. Its bytes are not checked."""
        try:
            status = self._path(tenant, ref.sha256).lstat()
        except (OSError, BlobError):
            return False
        return status.st_size == ref.size_bytes

    def stage(self, data: bytes) -> Path:
        """Write the bytes to a durable file in the incoming folder and return its path."""
        try:
            return self._disk.write_new(self._root / INCOMING, data)
        except FileNotFoundError:
            self.create_folders()
            return self._disk.write_new(self._root / INCOMING, data)

    def publish(self, tenant: str, ref: BlobRef, data: bytes | None, staged: Path | None) -> None:
        """Move the payload to its final path, durably. Call it under the write lock of the store.

        Pass the data, the staged file or both.
        """
        target = self._path(tenant, ref.sha256)
        staged = staged or self.stage(data or b"")
        try:
            self._disk.rename(staged, target)
        except FileNotFoundError:
            # The target folder does not exist yet, or the caller was cancelled and has removed the staged file.
            self._disk.make_folder(target.parent)
            self._disk.rename(staged if data is None or staged.exists() else self.stage(data), target)
        self._disk.sync_folder(target.parent)

    def discard(self, staged: Path) -> None:
        """Remove a staged file, if it exists."""
        self._disk.unlink(staged)

    def remove(self, payloads: Iterable[tuple[str, str]]) -> None:
        """Remove payloads, each given as tenant and hash, durably.

        Call it under the write lock of the store, when no entry refers to them.
        """
        folders: set[Path] = set()
        for tenant, sha256 in payloads:
            path = self._path(tenant, sha256)
            self._disk.unlink(path)
            folders.add(path.parent)
        for folder in sorted(folders):
            # Without a sync a removed name comes back after a power cut, and nothing would remove it again.
            if folder.is_dir():
                self._disk.sync_folder(folder)

    def clear_incoming(self) -> None:
        """Remove staged files that a crash left behind. Call it only when no other store has this folder open."""
        for path in self._list_folder(self._root / INCOMING):
            self._disk.unlink(path)

    def list_files(self) -> Iterator[tuple[str, str]]:
        """Yield the folder name and file name of every payload file and every staged file."""
        for folder in self._list_folder(self._root):
            for inner in self._list_folder(folder):
                if folder.name == INCOMING:
                    yield INCOMING, inner.name
                else:
                    yield from ((folder.name, file.name) for file in self._list_folder(inner))

    def has_payloads(self) -> bool:
        """Whether the folder has a payload that an append has published."""
        return any(folder != INCOMING for folder, _ in self.list_files())

    def _path(self, tenant: str, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):
            raise BlobError("blob_missing", f"no payload is named {sha256[:80]!r}: 64 hex digits expected")
        return self._root / tenant_folder(tenant) / sha256[:2] / sha256

    def _list_folder(self, folder: Path) -> list[Path]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(folder.iterdir())
        return []


class StagedPayloads:
    """The staged payloads of one append. A cancelled append leaves no staged files behind."""

    def __init__(self, blobs: BlobFolder) -> None:
        self._blobs = blobs
        self._lock = threading.Lock()
        self._paths: dict[BlobRef, Path] = {}
        self._discarded = False

    def add(self, ref: BlobRef, data: bytes) -> None:
        """Stage the payload; removes it again if `discard_unpublished` was called meanwhile."""
        path = self._blobs.stage(data)
        with self._lock:
            if not self._discarded:
                self._paths[ref] = path
                return
        self._blobs.discard(path)

    def get(self, ref: BlobRef) -> Path | None:
        """Return the path of the staged payload, if it is staged."""
        return self._paths.get(ref)

    def discard_unpublished(self) -> None:
        """Remove the staged files that were not published."""
        with self._lock:
            self._discarded = True
        for path in self._paths.values():
            self._blobs.discard(path)


def _unreadable_error(ref: BlobRef, error: OSError) -> BlobError:
    if isinstance(error, FileNotFoundError):
        return BlobError("blob_missing", f"payload {ref.sha256} ({ref.size_bytes} bytes) is not in the blob folder")
    return BlobError("blob_damaged", f"payload {ref.sha256} cannot be read: {os.strerror(error.errno or 0)}")


def _damaged_error(ref: BlobRef, size_bytes: int) -> BlobError:
    return BlobError(
        "blob_damaged", f"payload {ref.sha256} has {size_bytes} bytes of another hash; {ref.size_bytes} were stored"
    )
