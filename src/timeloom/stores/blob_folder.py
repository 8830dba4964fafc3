"""The blob folder: payloads as files named by their hash, apart per tenant."""

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
"""Where payloads wait for the append that they belong to. After a crash what is left there belongs to nobody."""

_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_CHUNK_BYTES: Final = 1 << 20


def tenant_folder(tenant: str) -> str:
    """The name of a tenant's folder: itself where that is safe on every file system, otherwise its hash."""
    if _PLAIN.fullmatch(tenant):
        return f"t_{tenant}"
    return f"x_{hashlib.sha256(tenant.encode('utf-8', 'surrogatepass')).hexdigest()}"


class BlobFolder:
    """Writes payloads in two moves: staged beside the others without any lock, published inside the append."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self._root = root
        self._disk = disk

    def prepare(self) -> None:
        """Makes the folders that every store has."""
        self._disk.make_folder(self._root / INCOMING)

    def read(self, tenant: str, ref: BlobRef) -> bytes:
        """The bytes, checked against size and hash."""
        try:
            descriptor = os.open(self._path(tenant, ref.sha256), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                data = file.read()
        except OSError as error:
            raise _unreadable(ref, error) from None
        if len(data) != ref.size_bytes or hashlib.sha256(data).hexdigest() != ref.sha256:
            raise _damaged(ref, len(data))
        return data

    def read_part(self, tenant: str, ref: BlobRef, start: int, most_bytes: int) -> bytes:
        """So many of the bytes from that one on, checked against the size of the whole."""
        try:
            descriptor = os.open(self._path(tenant, ref.sha256), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                size_bytes = os.fstat(descriptor).st_size
                data = os.pread(descriptor, most_bytes, start)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _unreadable(ref, error) from None
        if size_bytes != ref.size_bytes or len(data) < min(most_bytes, size_bytes - start):
            raise _damaged(ref, size_bytes)
        return data

    def check(self, tenant: str, ref: BlobRef) -> BlobError | None:
        """What is wrong with a payload, read piece by piece."""
        digest, size_bytes = hashlib.sha256(), 0
        try:
            descriptor = os.open(self._path(tenant, ref.sha256), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    size_bytes += len(chunk)
        except (OSError, BlobError) as error:
            return error if isinstance(error, BlobError) else _unreadable(ref, error)
        if size_bytes != ref.size_bytes or digest.hexdigest() != ref.sha256:
            return _damaged(ref, size_bytes)
        return None

    def has(self, tenant: str, ref: BlobRef) -> bool:
        """Whether a file of the payload's name and size is there; its bytes are looked at only when they are read."""
        try:
            found = self._path(tenant, ref.sha256).lstat()
        except (OSError, BlobError):
            return False
        return found.st_size == ref.size_bytes

    def stage(self, data: bytes) -> Path:
        """A durable file with the bytes, not yet in the place where they will be looked for."""
        try:
            return self._disk.write_new(self._root / INCOMING, data)
        except FileNotFoundError:
            self.prepare()
            return self._disk.write_new(self._root / INCOMING, data)

    def publish(self, tenant: str, ref: BlobRef, data: bytes, staged: Path | None) -> None:
        """Puts the payload in its place, durably; call it under the store's write lock."""
        target = self._path(tenant, ref.sha256)
        staged = staged or self.stage(data)
        try:
            self._disk.rename(staged, target)
        except FileNotFoundError:
            # The first of its folder; or its caller has given up and taken the staged file away.
            self._disk.make_folder(target.parent)
            self._disk.rename(staged if staged.exists() else self.stage(data), target)
        self._disk.sync_folder(target.parent)

    def discard(self, staged: Path) -> None:
        """Forgets a staged payload that was not published."""
        self._disk.unlink(staged)

    def remove(self, payloads: Iterable[tuple[str, str]]) -> None:
        """Removes payloads, each a tenant and a hash, durably; call it under the store's write lock, when nothing
        refers to them."""
        folders: set[Path] = set()
        for tenant, sha256 in payloads:
            path = self._path(tenant, sha256)
            self._disk.unlink(path)
            folders.add(path.parent)
        for folder in sorted(folders):
            # A name that is gone and not synced is back after a power cut, and nobody would look for it again.
            if folder.is_dir():
                self._disk.sync_folder(folder)

    def clear_incoming(self) -> None:
        """Removes what a crash left behind; call it only when no other store has this folder open."""
        for path in self._listed(self._root / INCOMING):
            self._disk.unlink(path)

    def stored(self) -> Iterator[tuple[str, str]]:
        """The tenant's folder and the name of every file that is in a payload's place or left behind."""
        for folder in self._listed(self._root):
            for inner in self._listed(folder):
                if folder.name == INCOMING:
                    yield INCOMING, inner.name
                else:
                    yield from ((folder.name, file.name) for file in self._listed(inner))

    def _path(self, tenant: str, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):
            raise BlobError("blob_missing", f"no payload is named {sha256[:80]!r}: 64 hex digits expected")
        return self._root / tenant_folder(tenant) / sha256[:2] / sha256

    def _listed(self, folder: Path) -> list[Path]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return sorted(folder.iterdir())
        return []


class Staging:
    """The staged payloads of one append; whoever gives up on it leaves nothing behind, at whatever moment."""

    def __init__(self, blobs: BlobFolder) -> None:
        self._blobs = blobs
        self._lock = threading.Lock()
        self._paths: dict[BlobRef, Path] = {}
        self._dropped = False

    def add(self, ref: BlobRef, data: bytes) -> None:
        """Stages the payload."""
        path = self._blobs.stage(data)
        with self._lock:
            if not self._dropped:
                self._paths[ref] = path
                return
        self._blobs.discard(path)

    def get(self, ref: BlobRef) -> Path | None:
        """Where the payload is staged, if it is."""
        return self._paths.get(ref)

    def drop(self) -> None:
        """Takes away what was not published."""
        with self._lock:
            self._dropped = True
        for path in self._paths.values():
            self._blobs.discard(path)


def _unreadable(ref: BlobRef, error: OSError) -> BlobError:
    if isinstance(error, FileNotFoundError):
        return BlobError("blob_missing", f"payload {ref.sha256} ({ref.size_bytes} bytes) is not in the blob folder")
    return BlobError("blob_damaged", f"payload {ref.sha256} cannot be read: {os.strerror(error.errno or 0)}")


def _damaged(ref: BlobRef, size_bytes: int) -> BlobError:
    return BlobError(
        "blob_damaged", f"payload {ref.sha256} has {size_bytes} bytes of another hash; {ref.size_bytes} were stored"
    )
